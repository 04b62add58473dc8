// Applies the rows of the tables, and what no row can express: a folder without a flag.
#include "trainer/config/aliases.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "data/folder_names.h"
#include "data/formats/table_reader.h"
#include "data/joined.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

using command_line::Argument;
using command_line::Origin;

bool Matches(const Word& word, const std::string& value) {
  const std::string theirs = Lower(std::string(word.theirs)), given = Lower(value);
  if (theirs.ends_with('*')) return given.starts_with(theirs.substr(0, theirs.size() - 1));
  return theirs == given || (NumberFrom(theirs) && NumberFrom(theirs) == NumberFrom(given));
}

// Whether a table of another format, or a folder, has its name, too.
bool HasTwin(const std::filesystem::path& table) {
  const std::filesystem::path folder = table.parent_path();
  const data::FolderContent content = data::ContentOf(folder.empty() ? "." : folder.string());
  const auto is_twin = [&](const std::filesystem::path& name) {
    return name.stem() == table.stem() && name != table.filename();
  };
  return std::ranges::any_of(content.files, is_twin) || std::ranges::any_of(content.folders, is_twin);
}

// A split is named without the extension of its file, if that is clear.
Translation SplitBeside(const std::string& given, const std::string& other, const std::string& flag) {
  namespace fs = std::filesystem;
  const auto normal = [](const fs::path& path) { return path.has_filename() ? path : path.parent_path(); };
  std::error_code ignored;
  const auto folder_of = [&](const fs::path& path) {
    return fs::absolute(normal(path), ignored).lexically_normal().parent_path();
  };
  const fs::path own = normal(given);
  if (folder_of(given) != folder_of(other)) {
    return {.refused = "training and validation data must lie in one folder"};
  }
  const std::string folder = own.parent_path().empty() ? "." : own.parent_path().string();
  constexpr auto kLines = data::TableFormat::kLines;
  const bool is_table = data::TableFormatOf(given).value_or(kLines) != kLines;
  const bool is_whole = fs::is_directory(own, ignored) || (is_table && HasTwin(own));
  const std::string name = (is_whole ? own.filename() : own.stem()).string();
  if (flag == "--val_split=" && name.find(',') != std::string::npos) {
    return {.refused = "a comma separates the names of several sets; rename it"};
  }
  return {{"--data_dir=" + folder, flag + name}};
}

// Returns the value at `place` with the numbers that follow it in words of their own: "0.08 1.0" is "0.08,1.0". Moves
// `place` to the last of these words.
std::string NumbersFrom(const std::vector<Argument>& arguments, size_t& place, std::string first) {
  std::string numbers = WithoutBrackets(std::move(first));
  while (place + 1 < arguments.size() && NumberFrom(arguments[place + 1].text)) {
    numbers += "," + arguments[++place].text;
  }
  return numbers;
}

constexpr std::array<std::string_view, 8> kLaunchers = {
    "torchrun", "distributed_train.sh", "accelerate", "deepspeed", "horovodrun", "mpirun", "srun", "python"};

class Rewriter {
 public:
  Rewriter(const std::vector<Argument>& arguments, std::vector<std::string>& mistakes)
      : arguments_(arguments), command_(arguments), mistakes_(mistakes) {
    Recognised recognised = RecogniseProgram(arguments);
    program_ = recognised.program;
    if (!recognised.mistake.empty()) mistakes_.push_back(std::move(recognised.mistake));
  }

  Rewritten Run() && {
    for (; next_ < arguments_.size(); ++next_) {
      const Argument& argument = arguments_[next_];
      const size_t dashes = argument.text.find_first_not_of('-');
      if (dashes == 1 || dashes == 2) {
        TakeFlag(argument);
      } else {
        TakeWord(argument);
      }
    }
    implied_.insert(implied_.end(), result_.arguments.begin(), result_.arguments.end());
    if (program_ != nullptr) AddDefaults();
    LeaveOutWhatDoesNotCount();
    NoteDefaults();
    result_.arguments = std::move(implied_);
    return std::move(result_);
  }

 private:
  // -j8 is -j 8: a number may follow a flag of one letter without a space.
  Argument Spread(const Argument& argument) const {
    const std::string& text = argument.text;
    const bool is_short = text.size() > 2 && text[1] != '-' && text.find('=') == std::string::npos;
    if (!is_short || !NumberFrom(text.substr(2)) || FindAlias(text.substr(1, 1), program_) == nullptr) return argument;
    return {text.substr(0, 2) + "=" + text.substr(2), argument.place};
  }

  void TakeFlag(const Argument& given) {
    const Argument argument = Spread(given);
    const size_t equals = argument.text.find('=');
    const std::string name = FlagName(argument);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.text.substr(equals + 1);
    // In flag files, our own flags have their own meaning.
    const Alias* alias = FindAlias(name, argument.place.empty() ? program_ : nullptr);
    if (alias == nullptr) return TakeOwn(argument, name, value.has_value());

    const bool next_is_flag = next_ + 1 < arguments_.size() && arguments_[next_ + 1].text.starts_with("-");
    if (!value && (alias->takes_value || (alias->value_is_optional && !next_is_flag))) value = NextValue();
    if (alias->takes_value && !value) {
      return mistakes_.push_back(argument.place + "--" + name + ": a value is missing");
    }
    if (value && !alias->takes_value && !alias->value_is_optional && alias->words.empty() && alias->reason.empty()) {
      return mistakes_.push_back(argument.place + "--" + name + "=" + *value +
                                 ": it takes no value; leave it out for no");
    }
    if (alias->takes_numbers) value = NumbersFrom(arguments_, next_, *value);
    if (ComesAgain(name)) return;
    if (alias->counts == nullptr || alias->counts(command_)) TakeAlias(argument, *alias, value.value_or(""));
  }

  // Of a flag that stands there twice the last one counts, also for what it implies.
  bool ComesAgain(const std::string& name) const {
    return std::any_of(arguments_.begin() + static_cast<std::ptrdiff_t>(next_) + 1, arguments_.end(),
                       [&](const Argument& later) { return FlagName(Spread(later)) == name; });
  }

  // Passes on, unchanged, a flag of ours with the argument that is its value, or an unknown flag.
  void TakeOwn(const Argument& argument, const std::string& name, bool has_value) {
    result_.arguments.push_back(argument);
    const Flag* flag = FindFlag(name);
    const bool is_negated = name.starts_with("no") && FindFlag(name.substr(name.starts_with("no_") ? 3 : 2)) != nullptr;
    if (has_value || is_negated || (flag != nullptr && flag->kind == Kind::kBool)) return;
    const char* const of_flags = flag == nullptr ? "-" : "--";
    const auto next_is = [&](const auto& wanted) {
      return next_ + 1 < arguments_.size() && wanted(arguments_[next_ + 1].text);
    };
    if (!next_is([&](const std::string& word) { return !word.starts_with(of_flags); })) return;
    result_.arguments.push_back(arguments_[++next_]);
    // An unknown flag may have several numbers, none of which is the data's folder.
    while (flag == nullptr && next_is([](const std::string& word) { return NumberFrom(word).has_value(); }))
      result_.arguments.push_back(arguments_[++next_]);
  }

  void TakeAlias(const Argument& argument, const Alias& alias, const std::string& value) {
    const std::string name(alias.name);
    if (alias.translate != nullptr) return TakeTranslation(argument, alias, value);
    const auto word = std::ranges::find_if(alias.words, [&](const Word& known) { return Matches(known, value); });
    const bool known = word != alias.words.end();
    if (!alias.refused.empty() && !known) {
      return mistakes_.push_back(argument.place + "--" + name + (alias.takes_value ? "=" + value : "") +
                                 " has no equivalent: " + std::string(alias.refused));
    }
    if (!alias.words.empty() && !known && !alias.other_words_pass) {
      return mistakes_.push_back(argument.place + "--" + name + "=" + value + ": expected " +
                                 Joined(alias.words, " | ", &Word::theirs));
    }
    const std::string ours = known ? std::string(word->ours) : value;
    if (!alias.flag.empty() && !(known && ours.empty())) Add(argument, std::string(alias.flag), ours);
    for (const std::string_view flags : {alias.implied, known ? word->implied : ""}) {
      for (const std::string_view flag : WordsOf(flags)) implied_.push_back({std::string(flag), argument.place});
    }
    if (known && !word->reason.empty()) {
      const std::string shown = value.empty() ? "" : "=" + value;
      result_.notes.push_back("--" + name + shown + ": " + std::string(word->reason));
    }
    if (!alias.reason.empty()) result_.notes.push_back("--" + name + " has no effect: " + std::string(alias.reason));
  }

  void TakeTranslation(const Argument& argument, const Alias& alias, const std::string& value) {
    const Translation translation = alias.translate(value, command_);
    const std::string theirs = "--" + std::string(alias.name) + (alias.takes_value ? "=" + value : "");
    if (!translation.refused.empty()) {
      return mistakes_.push_back(argument.place + theirs + " cannot be translated: " + translation.refused);
    }
    for (const std::string& flag : translation.flags) {
      const size_t equals = flag.find('=');
      Add(argument, flag.substr(2, equals - 2), flag.substr(equals + 1));
    }
    if (!translation.note.empty()) result_.notes.push_back(theirs + ": " + translation.note);
  }

  // timm, fairseq, torchelastic's example and NVIDIA's scripts take the folder of their data without a flag.
  void TakeWord(const Argument& argument) {
    // The name of the program in whose place this one stands.
    const std::string script = next_ == 0 ? command_.Script() : "";
    const bool is_known = ProgramOfScript(script) != nullptr;
    if (script.ends_with(".py") && !is_known && program_ == &TransformersProgram()) {
      return mistakes_.push_back(script + " is none of " + std::string(program_->called) +
                                 "'s scripts that are here: " + Joined(program_->scripts));
    }
    // Many programs have files of these names. Those of others do something else, whatever flags they share.
    const bool is_common = script == "main.py" || script == "train.py" || script == "train_imagenet.py";
    if (script.ends_with(".py") && !is_known && !(is_common && program_ != nullptr) && !command_.Has({"defaults_of"})) {
      return mistakes_.push_back("it is not known here what " + script + " does where its flags say nothing: " +
                                 "--defaults_of=NAME says whose defaults count, " +
                                 FindFlag("defaults_of")->limits.Text());
    }
    if (script.ends_with(".py") || is_known) return;
    if (std::ranges::find(kLaunchers, script) != kLaunchers.end()) {
      return mistakes_.push_back(script +
                                 " is no argument of a training: put it before dtrain_main with its flags, or " +
                                 "leave both out: --nproc_per_node=N starts N ranks on this machine");
    }
    const bool is_folder = ++words_ == 1 && (program_ != nullptr || command_.Has({"task", "arch", "a", "defaults_of"}));
    if (is_folder && command_.Has({"data_dir", "data_path"})) {
      return mistakes_.push_back("the data's folder is given twice: '" + argument.text + "' and --data_dir");
    }
    if (is_folder && argument.text.ends_with(".json")) {
      return mistakes_.push_back("'" + argument.text + "' is no folder of data; if it holds the arguments of " +
                                 std::string(program_ == nullptr ? "a command" : program_->called) +
                                 ", give them as flags");
    }
    if (is_folder && program_ == &TransformersProgram()) {
      return mistakes_.push_back("'" + argument.text + "' belongs to no flag of " + std::string(program_->called));
    }
    if (!is_folder) return result_.arguments.push_back(argument);
    const Argument folder = {"--data_dir=" + argument.text, argument.place};
    const Alias* alias = FindAlias("data_dir", program_);
    if (alias != nullptr) return TakeAlias(folder, *alias, argument.text);
    result_.arguments.push_back(folder);
  }

  // Puts the defaults of the recognised program before all others.
  void AddDefaults() {
    std::vector<Argument> defaults;
    std::vector<std::string> flags = program_->defaults(command_);
    if (!program_->turns_photographs) flags.push_back("--exif_orientation=false");
    for (const std::string& flag : flags) {
      const std::string name = flag.substr(2, flag.find('=') - 2);
      const bool is_given = std::ranges::any_of(
          implied_, [&](const Argument& one) { return FlagName(one) == name || FlagName(one) == "no" + name; });
      if (!is_given) defaults.push_back({flag, std::string(program_->called) + " means ", Origin::kDefault});
    }
    implied_.insert(implied_.begin(), defaults.begin(), defaults.end());
  }

  // Of other programs, and of a run's settings, the flags of any schedule are taken; only its own change something.
  // What is evaluated has the settings of its run.
  void LeaveOutWhatDoesNotCount() {
    const ForeignCommand all(implied_);
    const std::string schedule = all.Value({"lr_schedule"}, ScheduleConfig().name);
    const bool is_of_run = all.Value({"mode"}, "train") != "train" && !all.Has({"init_weights"});
    const auto does_not_count = [&](const Argument& one) {
      if (is_of_run && one.origin == Origin::kDefault && FindFlag(FlagName(one))->traits.kept_with_weights) return true;
      if (one.origin == Origin::kUser || ScheduleReads(schedule, FlagName(one))) return false;
      if (one.origin == Origin::kTranslated) {
        result_.notes.push_back("--" + FlagName(one) + " has no effect with --lr_schedule=" + schedule);
      }
      return true;
    };
    std::erase_if(implied_, does_not_count);
  }

  // Says which of the defaults count.
  void NoteDefaults() {
    std::string list;
    for (const Argument& one : implied_) {
      if (one.origin == Origin::kDefault)
        list += (list.empty() ? "" : ", ") + FlagName(one) + " " + FlagValue({one}, 0);
    }
    if (list.empty()) return;
    result_.notes.push_back("as " + std::string(program_->called) + ": " + list +
                            " (--defaults_of=none: dtrain's own defaults)");
  }

  // A mistake in the value is reported with the name that was typed.
  void Add(const Argument& argument, const std::string& flag, const std::string& value) {
    const std::string typed = argument.text.substr(0, argument.text.find('='));
    const bool is_own = typed == "--" + flag;
    result_.arguments.push_back({"--" + flag + "=" + value, argument.place + (is_own ? "" : typed + " means "),
                                 is_own ? argument.origin : Origin::kTranslated});
  }

  std::optional<std::string> NextValue() {
    if (next_ + 1 >= arguments_.size() || arguments_[next_ + 1].text.starts_with("--")) return std::nullopt;
    return arguments_[++next_].text;
  }

  const std::vector<Argument>& arguments_;
  const ForeignCommand command_;
  std::vector<std::string>& mistakes_;
  const ForeignProgram* program_ = nullptr;  // the program from which the command comes; may be null
  Rewritten result_;
  std::vector<Argument> implied_;
  int words_ = 0;  // arguments without a flag, so far
  size_t next_ = 0;
};

// Returns a row of each word, from what stands before its first '=' and what stands after that.
template <typename RowOf>
std::vector<Alias> RowsOf(std::string_view words, const RowOf& row_of) {
  std::vector<Alias> rows;
  for (const std::string_view word : WordsOf(words)) {
    const size_t equals = word.find('=');
    rows.push_back(row_of(word.substr(0, equals), word.substr(equals + 1)));
  }
  return rows;
}

// Returns such a row for each of these names.
std::vector<Alias> RowsOfBoth(std::string_view with_value, std::string_view switches, Alias row) {
  std::vector<Alias> rows;
  for (const auto& [names, takes_value] : {std::pair(with_value, true), std::pair(switches, false)}) {
    row.takes_value = takes_value;
    for (const std::string_view name : WordsOf(names)) rows.emplace_back(row).name = name;
  }
  return rows;
}

}  // namespace

std::string FlagName(const Argument& argument) {
  const size_t dashes = argument.text.find_first_not_of('-');
  if (dashes != 1 && dashes != 2) return {};
  std::string name = argument.text.substr(dashes, argument.text.find('=') - dashes);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string FlagValue(const std::vector<Argument>& arguments, size_t place) {
  const size_t equals = arguments[place].text.find('=');
  if (equals != std::string::npos) return arguments[place].text.substr(equals + 1);
  return place + 1 < arguments.size() ? arguments[place + 1].text : "";
}

std::string Lower(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return value;
}

std::string WithoutBrackets(std::string value) {
  std::erase_if(value, [](char letter) {
    return letter == '(' || letter == ')' || letter == '[' || letter == ']' || letter == ' ';
  });
  return value;
}

std::optional<std::string> ForeignCommand::Find(const std::vector<std::string>& names) const {
  std::optional<std::string> value;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (std::ranges::find(names, FlagName(arguments_[i])) != names.end()) value = FlagValue(arguments_, i);
  }
  return value;
}

std::string ForeignCommand::Script() const {
  if (arguments_.empty() || arguments_.front().text.starts_with('-')) return {};
  return std::filesystem::path(arguments_.front().text).filename().string();
}

std::string ForeignCommand::Value(const std::vector<std::string>& names, const std::string& otherwise) const {
  return Find(names).value_or(otherwise);
}

double ForeignCommand::Number(const std::vector<std::string>& names, double otherwise) const {
  return NumberFrom(Value(names, "")).value_or(otherwise);
}

std::string ForeignCommand::Numbers(const std::vector<std::string>& names, const std::string& otherwise) const {
  std::string numbers = otherwise;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (std::ranges::find(names, FlagName(arguments_[i])) == names.end()) continue;
    size_t place = arguments_[i].text.find('=') == std::string::npos ? i + 1 : i;
    numbers = NumbersFrom(arguments_, place, FlagValue(arguments_, i));
  }
  return numbers;
}

std::vector<std::string_view> WordsOf(std::string_view text) {
  constexpr std::string_view kSpaces = " \n";
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kSpaces); begin < text.size();) {
    const size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpaces, end);
  }
  return words;
}

void AddFlags(std::string_view words, std::vector<std::string>& flags) {
  for (const std::string_view word : WordsOf(words)) flags.emplace_back(word);
}

std::vector<Alias> Renamed(std::string_view words) {
  return RowsOf(words, [](auto theirs, auto ours) { return Alias{.name = theirs, .flag = ours}; });
}

std::vector<Alias> RenamedUnless(std::string_view off, std::string_view words) {
  return RowsOf(words, [off](auto theirs, auto ours) {
    return Alias{.name = theirs, .flag = ours, .words = {{off, ""}}, .other_words_pass = true};
  });
}

std::vector<Alias> Switches(std::string_view words) {
  return RowsOf(words,
                [](auto theirs, auto ours) { return Alias{.name = theirs, .takes_value = false, .implied = ours}; });
}

std::vector<Alias> OnlyTaken(std::string_view words, std::string_view reason) {
  return RowsOf(words, [reason](auto theirs, auto value) {
    return Alias{.name = theirs, .words = {{value, ""}}, .refused = reason};
  });
}

std::vector<Alias> WithoutEffect(std::string_view reason, std::string_view with_value, std::string_view switches) {
  return RowsOfBoth(with_value, switches, {.name = {}, .reason = reason});
}

std::vector<Alias> Translated(Translator translate, std::string_view with_value, std::string_view switches) {
  return RowsOfBoth(with_value, switches, {.name = {}, .translate = translate});
}

std::vector<Alias> Together(const std::vector<std::vector<Alias>>& parts) {
  std::vector<Alias> all;
  for (const auto& rows : parts) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

Translation TrainSplit(const std::string& path, const ForeignCommand& command) {
  return SplitBeside(path, command.Value({"validation_file", "validation_dir", "val_dir", "data_val"}, path),
                     "--train_split=");
}

Translation ValSplit(const std::string& path, const ForeignCommand& command) {
  return SplitBeside(path, command.Value({"train_file", "train_dir", "data_train"}, path), "--val_split=");
}

Translation AddressOfRank0(const std::string& value, const ForeignCommand&) {
  if (value == "env://") return {};
  constexpr std::string_view kScheme = "tcp://";
  const size_t colon = value.rfind(':');
  if (!value.starts_with(kScheme) || colon <= kScheme.size()) return {.refused = "expected tcp://HOST:PORT or env://"};
  return {{"--master_addr=" + value.substr(kScheme.size(), colon - kScheme.size()),
           "--master_port=" + value.substr(colon + 1)}};
}

Rewritten RewriteAliases(const std::vector<Argument>& arguments, std::vector<std::string>& mistakes) {
  const std::vector<Argument> plain = WithoutHydra(arguments, mistakes);
  return Rewriter(plain, mistakes).Run();
}

}  // namespace dtrain::config
