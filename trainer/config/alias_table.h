// The table of foreign flags: flags that other training programs have. aliases.h applies it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::config {

// A value of a foreign flag, and its translation.
struct Word {
  std::string_view theirs;        // "rand*" matches every value that begins with rand
  std::string_view ours;          // empty: our flag is not set
  std::string_view implied = {};  // another flag of ours that this value sets
  std::string_view reason = {};   // how our meaning differs, for people
};

// A foreign flag, and its translation.
struct Alias {
  std::string_view name;  // with underscores
  bool takes_value = true;
  std::string_view flag = {};     // our flag that gets the value; empty: no flag does
  std::vector<Word> words = {};   // the values that are understood; empty: any value, which is passed on unchanged
  bool other_words_pass = false;  // values not in `words` are passed on unchanged: the flag is also one of ours
  std::vector<std::string> implied = {};  // further flags of ours that it sets
  std::string_view reason = {};           // why it has no effect here, for people
};

// The flags of fairseq.
const std::vector<Alias>& TextAliases();
// The flags of the AWS ImageNet scripts (Horovod, TensorFlow), torchvision's references, torchelastic's example,
// NVIDIA's ConvNets and timm. A flag that several of them share has one row.
const std::vector<Alias>& ImageAliases();

// Returns the row of the flag `name` (with underscores), or null.
const Alias* FindAlias(std::string_view name);

}  // namespace dtrain::config
