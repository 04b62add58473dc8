// The rows of the table of foreign flags (aliases.h says what becomes of them).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::config {

struct Word {
  std::string_view theirs;        // "rand*": all that begin so
  std::string_view ours;          // empty: the flag is not set
  std::string_view implied = {};  // a flag of ours that comes with it
  std::string_view reason = {};   // in what it differs, for people
};

struct Alias {
  std::string_view name;  // with underscores
  bool takes_value = true;
  std::string_view flag = {};     // of ours, that gets the value; empty: none does
  std::vector<Word> words = {};   // the values that are understood, and what they are here; empty: any, as it is
  bool other_words_pass = false;  // as they are: for flags that are ours, too
  std::vector<std::string> implied = {};  // flags of ours that come with it
  std::string_view reason = {};           // why it means nothing here
};

// Of fairseq.
const std::vector<Alias>& TextAliases();
// Of the AWS ImageNet scripts (Horovod, TensorFlow), torchvision's references, torchelastic's example, NVIDIA's
// ConvNets and timm. A flag that two of them have stands once.
const std::vector<Alias>& ImageAliases();

// The row of this name (with underscores), or null.
const Alias* FindAlias(std::string_view name);

}  // namespace dtrain::config
