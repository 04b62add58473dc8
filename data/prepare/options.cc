#include "data/prepare/options.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "data/command_line/parser.h"
#include "data/error.h"
#include "data/formats/open_source.h"
#include "data/formats/record_format.h"
#include "data/joined.h"
#include "data/outputs.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

using Take = std::function<bool(const std::string&)>;

const std::map<std::string, const char*> kCommands = {
    {"pack", "writes any readable data set as indexed shards; resumable; verifies each record"},
    {"index", "rebuilds the indexes of a data set"},
    {"tokenize", "converts raw text to token files and a dictionary in fairseq-preprocess's formats"},
    {"encode", "reads one JSON string per line from stdin, prints its token ids as one JSON array per line"},
    {"inspect", "prints one JSON object per record: index, label, class, bytes, sha256"},
    {"verify", "reads and decodes every record, and lists bad ones; exit code 3 if there are any"},
    {"warm", "reads all data once with many threads, to fill the caches of the storage"}};

struct Entry {
  std::string name, commands;  // commands: those with this flag, separated by blanks; empty: all
  bool is_boolean = false;
  std::string expected, help;
  Take take;
  bool takes_many = false;
  PathUse path = PathUse::kNone;
};

constexpr char kReading[] = "pack index inspect verify warm";  // commands that read a data set

Take Text(std::string& field) {
  return [&field](const std::string& value) { return field = value, true; };
}

Take Texts(std::vector<std::string>& field) {
  return [&field](const std::string& value) { return field.push_back(value), true; };
}

Take Word(std::string& field, std::vector<std::string> words) {
  return [&field, words = std::move(words)](const std::string& value) {
    field = value;
    return std::find(words.begin(), words.end(), value) != words.end();
  };
}

Take Boolean(bool& field) {
  return [&field](const std::string& value) {
    const std::string word = command_line::BooleanWord(value);
    field = word == "true";
    return !word.empty();
  };
}

bool ParseInteger(const std::string& text, int64_t lowest, int64_t highest, int64_t& number) {
  const std::optional<int64_t> parsed = WholeNumber(text);
  number = parsed.value_or(0);
  return parsed && number >= lowest && number <= highest;
}

Take Integer(int64_t& field, int64_t lowest, int64_t highest) {
  return [=, &field](const std::string& value) { return ParseInteger(value, lowest, highest, field); };
}

Take Fraction(std::optional<double>& field) {
  return [&field](const std::string& value) {
    char* end = nullptr;
    field = std::strtod(value.c_str(), &end);
    const bool is_decimal = value.find_first_of("xX") == std::string::npos;
    return !value.empty() && *end == '\0' && is_decimal && *field >= 0 && *field <= 1;
  };
}

Take LabelOffset(std::optional<int64_t>& field) {
  return [&field](const std::string& value) {
    field.reset();
    if (value == "auto") return true;
    int64_t number = 0;
    if (!ParseInteger(value, 0, 1'000'000'000, number)) return false;
    field = number;
    return true;
  };
}

Take Part(PrepareOptions& options) {
  return [&options](const std::string& value) {
    const size_t slash = value.find('/');
    return slash != std::string::npos && ParseInteger(value.substr(slash + 1), 1, 100'000, options.parts) &&
           ParseInteger(value.substr(0, slash), 1, options.parts, options.part);
  };
}

// The values of --data_format.
std::vector<std::string> FormatNames() {
  std::vector<std::string> names = {"auto"};
  for (const DataFormat& format : Formats()) {
    if (format.open) names.push_back(format.name);
  }
  return names;
}

// The values of --output_format.
std::vector<std::string> WrittenFormats() {
  std::vector<std::string> names;
  for (const RecordFormat* format : RecordFormats()) names.push_back(format->name());
  return names;
}

std::vector<Entry> Table(PrepareOptions& o) {
  const std::vector<std::string> formats = FormatNames();
  // clang-format off
  return {
      {"data_dir", kReading, false, "a folder", "Folder with the data; for safetensors also a file.", Text(o.data_dir), false, PathUse::kRead},
      {"labels", kReading, false, "FILE.csv, FILE.tsv or FILE.jsonl",
       "Table that names images and their labels, an image a row, in place of folders of classes. Names of images are paths "
       "below --data_dir or, without that, below the table's own folder.", Text(o.table.path), false, PathUse::kRead},
      {"image_column", kReading, false, "a column's name", "With --labels: column of the image's name. [default: found by its name]",
       Text(o.table.image_column)},
      {"label_column", kReading, false, "names of columns", "With --labels: column of the label, or several with commas "
       "between them for several labels or numbers. [default: found by its name]", Text(o.table.label_column)},
      {"split_column", kReading, false, "a column's name", "With --labels: column of the split. [default: split, if there is one, "
       "else all images are of train]", Text(o.table.split_column)},
      {"label_separator", kReading, false, "a text", "With --labels: what is between several labels in a cell. [default: a column for "
       "each label]", Text(o.table.separator)},
      {"csv_delimiter", kReading, false, "one of auto | comma | semicolon | tab", "With --labels: what separates the cells of a .csv. "
       "[default: auto]", [&o](const std::string& value) {
         o.table.delimiter = DelimiterNamed(value);
         return value == "auto" || o.table.delimiter != 0;
       }},
      {"task", kReading, false, "one of " + Joined(kLabelKinds, " | ", &LabelKindFacts::task),
       "What the labels of images are, as of dtrain_main: a class, several labels, or numbers. [default: image_classification]",
       [&o](const std::string& value) {
         const auto* const kind = std::ranges::find(kLabelKinds, value, &LabelKindFacts::task);
         if (kind == std::end(kLabelKinds)) return false;
         o.labels = static_cast<LabelKind>(kind - kLabelKinds);
         return true;
       }},
      {"data_format", kReading, false, "one of " + Joined(formats, " | "),
       "Format of the data; auto: recognised from the contents of --data_dir. [default: auto]", Word(o.data_format, formats)},
      {"split", kReading, false, "a text", "Folder or file prefix of the split to process. [default: train and val, as far as there; for verify also test, or the "
       "folders of classes in --data_dir itself]",
       Text(o.split)},
      {"index_dir", kReading, false, "a folder", "Folder for index files. [default: beside the data]", Text(o.index_dir), false, PathUse::kWritten},
      {"label_offset", kReading, false, "auto, or a whole number, 0 to 1000000000",
       "Label of the first class in the data: a number, or auto (1 if the labels are exactly 1 to C, else 0). "
       "[default: auto]", LabelOffset(o.label_offset)},
      {"workers", "", false, "a whole number, 0 to 1024",
       "Number of threads. [default: 0: the cores of this machine; for warm 64]", Integer(o.workers, 0, 1024)},
      {"output", "pack verify tokenize", false, "a folder, or with tokenize the name of files",
       "pack: folder to write to. verify: folder for quarantine.jsonl. tokenize: PREFIX of the files PREFIX.bin and "
       "PREFIX.idx; dict.txt and the tokenizer's files are written beside them. [default: for verify --index_dir, or "
       "--data_dir, but none for folders of images]",
       Text(o.output), false, PathUse::kWritten},
      {"input", "tokenize", false, "a text file", "One or more text files; a blank line ends a document.",
       Texts(o.inputs), true, PathUse::kRead},
      {"encoder_json", "tokenize encode", false, "a file", "File encoder.json with GPT-2's vocabulary.", Text(o.encoder_json), false, PathUse::kRead},
      {"vocab_bpe", "tokenize encode", false, "a file", "File vocab.bpe with GPT-2's merges.", Text(o.vocab_bpe), false, PathUse::kRead},
      {"tokenizer", "tokenize encode", false, "a folder",
       "Folder of a RoBERTa model with tokenizer.json, or vocab.json and merges.txt, whose token ids are used; replaces "
       "--encoder_json and --vocab_bpe.", Text(o.tokenizer), false, PathUse::kRead},
      {"dict", "tokenize", false, "a file", "Dictionary file (dict.txt) to use. [default: one is counted]", Text(o.dict), false, PathUse::kRead},
      {"output_format", "pack", false, "one of " + Joined(WrittenFormats(), " | "), "Format to write: " + Joined(WrittenFormats()) + ".",
       Word(o.output_format, WrittenFormats())},
      {"short_side", "pack", false, "a whole number, 0 to 16384",
       "Resize images whose short side is longer to this (antialiased) and store them as JPEG; 0: copy images byte for "
       "byte. [default: 0; pixels]", Integer(o.short_side, 0, 16384)},
      {"quality", "pack", false, "a whole number, 1 to 100",
       "Quality of the JPEGs that are written. [default: 95, and pixels of a safetensors file become PNG]",
       Integer(o.quality, 1, 100)},
      {"seek_points", "pack", true, "true or false",
       "Rewrite JPEGs without changing a pixel, so that crops decode faster; adds 2 % to the size.", Boolean(o.seek_points)},
      {"shards", "pack", false, "a whole number, 0 to 99999",
       "Number of files per split; 0: one per 2,048 records. [default: 0]", Integer(o.shards, 0, 99999)},
      {"part", "pack", false, "I/N with I from 1 to N",
       "I/N: write only the I-th of N parts. Run the same command with 1/N to N/N on N machines. [default: 1/1]", Part(o)},
      {"max_bad_records", "pack", false, "a number, 0 to 1",
       "Greatest fraction of unreadable records that is left out before packing fails. [default: 0.0001, and a few of a small "
       "set: 10, or one in 20]",
       Fraction(o.max_bad_records)},
      {"strict_data", "pack", true, "true or false", "Fail at the first unreadable record.", Boolean(o.strict_data)},
      {"move_bad_to", "verify", false, "a folder",
       "Move bad image files into this folder, outside of the data, under split and class. For whoever has photos of which "
       "some are broken. [default: none]", Text(o.move_bad_to), false, PathUse::kWritten},
      {"decode", "inspect", true, "true or false", "Decode images and add width, height and mean_rgb, or error.", Boolean(o.decode)},
      {"limit", "inspect", false, "a whole number, 0 or more", "Number of records per split; 0: all. [default: 0]",
       Integer(o.limit, 0, INT64_MAX)},
  };
  // clang-format on
}

bool BelongsTo(const Entry& entry, const std::string& command) {
  return entry.commands.empty() || (" " + entry.commands + " ").find(" " + command + " ") != std::string::npos;
}

// Returns the help on `command`, or on all commands if it is empty.
std::string Help(const std::vector<Entry>& table, const std::string& command) {
  std::string text = "Usage: dtrain_data " + (command.empty() ? "COMMAND" : command) + " [--flag=value ...]\n";
  if (command.empty()) text += "Prepares and checks data.\n\n";
  for (const auto& [name, purpose] : kCommands) {
    if (command.empty()) text += "  " + name + std::string(10 - name.size(), ' ') + purpose + "\n";
    if (command == name) text += std::string(purpose) + "\n";
  }
  text +=
      "\nWrite --flag=value or --flag value; for booleans, --flag or --noflag. In names, - and _ are the same.\n"
      "--flagfile=FILE reads flags from FILE, one per line; --help shows this text (--help=json for programs), "
      "--version the version.\n\n";
  for (const Entry& entry : table) {
    if (!command.empty() && !BelongsTo(entry, command)) continue;
    const std::string left = (entry.is_boolean ? "  --[no]" : "  --") + entry.name;
    text += left + std::string(left.size() < 22 ? 22 - left.size() : 1, ' ');
    if (!entry.commands.empty() && command.empty()) text += entry.commands + ": ";
    text += entry.help;
    if (entry.path == PathUse::kWritten) {
      text.ends_with(']') ? text.replace(text.size() - 1, 1, "; written]") : text += " [written]";
    }
    text += "\n";
  }
  return text;
}

// Returns --help=json: the same keys as of the other programs, made from the sentences of the table.
std::string HelpJson(const std::vector<Entry>& table, const std::string& version) {
  nlohmann::ordered_json json = {{"program", "dtrain_data"}, {"version", version}};
  for (const auto& [name, purpose] : kCommands) json["commands"].push_back(name);
  for (const Entry& entry : table) {
    const auto begins = [&entry](const char* words) { return entry.expected.starts_with(words); };
    const char* type = entry.is_boolean           ? "boolean"
                       : begins("a whole number") ? "integer"
                       : begins("a number")       ? "number"
                                                  : "text";
    nlohmann::ordered_json flag = {
        {"name", entry.name}, {"type", type}, {"expected", entry.expected}, {"help", entry.help}};
    if (const size_t at = entry.help.find("[default: "); at != std::string::npos) {
      flag["default"] = entry.help.substr(at + 10, entry.help.find_first_of(":;,]", at + 10) - at - 10);
    }
    std::istringstream commands(entry.commands);
    for (std::string command; commands >> command;) flag["commands"].push_back(command);
    std::istringstream choices(begins("one of ") ? entry.expected.substr(7) : "");
    for (std::string choice; choices >> choice;) {
      if (choice != "|") flag["choices"].push_back(choice);
    }
    json["flags"].push_back(flag);
  }
  return json.dump();
}

void CheckTokenizer(const PrepareOptions& options, std::vector<std::string>& mistakes) {
  const bool has_files = !options.encoder_json.empty() || !options.vocab_bpe.empty();
  if (has_files && !options.tokenizer.empty()) {
    mistakes.push_back(
        "--tokenizer is given together with --encoder_json or --vocab_bpe: expected either --tokenizer or the other "
        "two");
  } else if (options.tokenizer.empty() && (options.encoder_json.empty() || options.vocab_bpe.empty())) {
    mistakes.push_back("no tokenizer: expected --encoder_json and --vocab_bpe, or --tokenizer");
  }
  if (options.command != "tokenize") return;
  if (options.inputs.empty()) mistakes.push_back("--input is not set: expected one or more text files");
  if (options.output.empty() || options.output.ends_with('/')) {
    mistakes.push_back("--output=" + options.output +
                       ": expected the name of token files without .bin and .idx, such as "
                       "data/train");
  }
}

void CheckTogether(const PrepareOptions& options, std::vector<std::string>& mistakes) {
  if (options.command.empty()) return;
  if (options.command == "tokenize" || options.command == "encode") return CheckTokenizer(options, mistakes);
  const bool has_table = !options.table.path.empty();
  if (options.data_dir.empty() && !has_table) mistakes.push_back("--data_dir is not set: expected a folder with data");
  if (has_table && options.data_format != "auto") {
    mistakes.push_back("--data_format=" + options.data_format +
                       ": expected none with --labels, which names the images");
  }
  if (has_table && !options.move_bad_to.empty()) {
    mistakes.push_back("--move_bad_to=" + options.move_bad_to +
                       ": expected none with --labels, which names the images");
  }
  if (options.command != "pack") return;
  if (options.output.empty()) mistakes.push_back("--output is not set: expected a folder to write to");
  if (options.output_format.empty()) {
    mistakes.push_back("--output_format is not set: expected one of " + Joined(WrittenFormats(), " | "));
  }
}

}  // namespace

PrepareCommandLine ParsePrepareCommandLine(const std::vector<std::string>& arguments, const std::string& version) {
  PrepareCommandLine result;
  const std::vector<Entry> table = Table(result.options);
  std::set<std::string> given;
  std::vector<command_line::Flag> flags;
  for (const Entry& entry : table) {
    const auto take = [&given, &entry, &result](const std::string& value) {
      given.insert(entry.name);
      if (entry.path == PathUse::kRead) result.options.read.push_back(value);
      if (entry.path == PathUse::kWritten) result.options.written[entry.name] = value;
      return entry.take(value);
    };
    flags.push_back({entry.name, entry.is_boolean, entry.expected, take, entry.takes_many});
  }
  std::vector<std::string> commands, mistakes;
  for (const auto& [name, purpose] : kCommands) commands.push_back(name);
  auto expanded = command_line::ExpandFlagfiles(arguments, mistakes);
  const auto parsed = command_line::Parse(std::move(expanded), commands, flags, mistakes);
  if (parsed.wants_version) result.answer = "dtrain_data " + version;
  if (parsed.wants_help) {
    result.answer = parsed.help_topic == "json" ? HelpJson(table, version) : Help(table, parsed.command);
  }
  if (!result.answer.empty()) return result;

  result.options.command = parsed.command;
  for (const Entry& entry : table) {
    if (parsed.command.empty() || !given.contains(entry.name) || BelongsTo(entry, parsed.command)) continue;
    mistakes.push_back("--" + entry.name + " does not apply to " + parsed.command + ", only to " + entry.commands);
  }
  CheckTogether(result.options, mistakes);
  if (mistakes.empty()) return result;
  throw Error(ExitCode::kUsage, command_line::TextOf(mistakes), "dtrain_data --help lists all commands and flags");
}

}  // namespace dtrain::data
