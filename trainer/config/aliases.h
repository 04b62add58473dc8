// The flags of other training programs, and their translation, so that the commands people already have keep working.
// A foreign flag becomes flags of ours; one that has no effect here is named in a note with the reason, never silently
// dropped. Of one that is given twice the last one counts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/command_line/parser.h"

namespace dtrain::config {

// Returns the name of a flag with underscores, or nothing for a word that is no flag.
std::string FlagName(const command_line::Argument& argument);

// Returns the value of the flag at this place: after its '=', or the next argument.
std::string FlagValue(const std::vector<command_line::Argument>& arguments, size_t place);

// A whole command before it is parsed, for flags whose meaning depends on other flags. Names have underscores.
class ForeignCommand {
 public:
  explicit ForeignCommand(const std::vector<command_line::Argument>& arguments) : arguments_(arguments) {}

  // Returns the value of the last of these flags; empty if there is none of them.
  std::optional<std::string> Find(const std::vector<std::string>& names) const;
  std::string Value(const std::vector<std::string>& names, const std::string& otherwise) const;
  // The same for a number: `otherwise` also if the value is none.
  double Number(const std::vector<std::string>& names, double otherwise) const;
  bool Has(const std::vector<std::string>& names) const { return Find(names).has_value(); }
  // Returns the values of the last of these flags that takes several words, with commas between them.
  std::string Numbers(const std::vector<std::string>& names, const std::string& otherwise) const;
  // Returns the name, without folders, of what stands before all flags, which may be a program: "run_ner.py".
  std::string Script() const;

 private:
  const std::vector<command_line::Argument>& arguments_;
};

// Returns the text with small letters, as far as they are ASCII's.
std::string Lower(std::string value);

// Returns a list without its brackets and spaces: "(0.9, 0.98)" is "0.9,0.98".
std::string WithoutBrackets(std::string value);

// What the value of a foreign flag means here, in the command that it stands in.
struct Translation {
  std::vector<std::string> flags = {};  // of ours, "--name=value"; none: it changes nothing
  std::string refused = {};             // if not empty: why it is a mistake
  std::string note = {};                // for people
};
using Translator = Translation (*)(const std::string& value, const ForeignCommand& command);
using Condition = bool (*)(const ForeignCommand& command);

// A value of a foreign flag, and its translation.
struct Word {
  std::string_view theirs;        // in any case; "rand*" matches every value that begins with rand, 0 also 0.0
  std::string_view ours;          // empty: our flag is not set
  std::string_view implied = {};  // other flags of ours that this value sets, with spaces between them
  std::string_view reason = {};   // how our meaning differs, for people
};

// A foreign flag, and its translation.
struct Alias {
  std::string_view name;  // with underscores
  bool takes_value = true;
  std::string_view flag = {};     // our flag that gets the value; empty: no flag does
  std::vector<Word> words = {};   // the values that are understood; empty: any value, which is passed on unchanged
  bool other_words_pass = false;  // values not in `words` are passed on unchanged: the flag is also one of ours
  std::string_view implied = {};  // further flags of ours that it sets, with spaces between them
  std::string_view reason = {};   // why it has no effect here, for people; only where no number depends on it
  std::string_view refused = {};  // why values not in `words` are mistakes: numbers would be others here
  // Translates the value if other flags of the command count, too; the fields from `flag` on are not used then.
  Translator translate = nullptr;
  bool takes_numbers = false;      // its value may be several words that are numbers
  bool value_is_optional = false;  // the next word is its value unless it is a flag
  Condition counts = nullptr;      // where it does not hold, the flag changes nothing there, and so it does here
};

// For a flag that another flag's translation reads.
inline Translation OfAnother(const std::string&, const ForeignCommand&) { return {}; }

// Returns the words of a text, which spaces and line feeds separate, as parts of it.
std::vector<std::string_view> WordsOf(std::string_view text);

// Appends the words of a text, which are flags of ours, "--name=value".
void AddFlags(std::string_view words, std::vector<std::string>& flags);

// Why flags of several programs have no effect, or only one value.
constexpr std::string_view kOwnLoader = "dtrain has its own loader";
constexpr std::string_view kEvaluationBatch = "evaluation uses the batch size of training";
constexpr std::string_view kOnlyDefault = "only its default is taken";
constexpr std::string_view kResumes = "a run resumes from its own checkpoints automatically";
constexpr std::string_view kNoPython = "there is no Python code to compile";

// Rows for which words are enough.
// Flags that have another name here: "img_size=image_size drop=dropout".
std::vector<Alias> Renamed(std::string_view words);
// Those that are left out with the value `off`.
std::vector<Alias> RenamedUnless(std::string_view off, std::string_view words);
// Flags without a value, and the flag of ours that each sets: "eval=--mode=eval".
std::vector<Alias> Switches(std::string_view words);
// Flags of which one value changes nothing, with that: "clip_mode=norm". Others are refused, for this reason (if any).
std::vector<Alias> OnlyTaken(std::string_view words, std::string_view reason = kOnlyDefault);
// Flags that have no effect here, for this reason: those that take a value, and switches.
std::vector<Alias> WithoutEffect(std::string_view reason, std::string_view with_value, std::string_view switches = {});
// Flags that have one translation.
std::vector<Alias> Translated(Translator translate, std::string_view with_value, std::string_view switches = {});

// Returns the rows of all parts.
std::vector<Alias> Together(const std::vector<std::vector<Alias>>& parts);

// The flags for a split in a file or a folder of its own, which --train_file, --train_dir and so on name. All splits
// lie in one folder here, so the other split, if the command has it, must lie beside it.
Translation TrainSplit(const std::string& path, const ForeignCommand& command);
Translation ValSplit(const std::string& path, const ForeignCommand& command);

// tcp://HOST:PORT, or env://: the launcher's variables are looked at anyway.
Translation AddressOfRank0(const std::string& value, const ForeignCommand& command);

const std::vector<Alias>& TextAliases();
// Returns the rows that all programs share: those of fairseq, those that several programs for images have, and flags of
// all of them that have no equivalent.
const std::vector<Alias>& SharedAliases();

// Names that our flags have in other programs and that cannot be translated, for the hint if a command line has one of
// them. Returns a map from a foreign name (with underscores) to the text that says what to use here: "--optimizer".
const std::map<std::string, std::string>& ForeignFlags();

struct Rewritten {
  std::vector<command_line::Argument> arguments;
  std::vector<std::string> notes;  // for people: the flags that have no effect or another meaning, and why
};

// Called after flagfiles are expanded and before arguments are parsed. The flags that foreign flags imply come first in
// the result, so that a flag given explicitly overrides them. Adds a sentence to `mistakes` for each foreign flag whose
// value is missing or not understood. All other arguments are passed on unchanged.
Rewritten RewriteAliases(const std::vector<command_line::Argument>& arguments, std::vector<std::string>& mistakes);

}  // namespace dtrain::config
