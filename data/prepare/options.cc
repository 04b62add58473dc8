// The command line of dtrain_data: the tables of its commands and flags, for the parser that all programs share.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "data/command_line/parser.h"
#include "data/error.h"
#include "data/formats/labels.h"
#include "data/formats/open_source.h"
#include "data/formats/record_format.h"
#include "data/joined.h"
#include "data/prepare/commands.h"
#include "data/whole_number.h"

namespace dtrain::data {

// Each in the file of its command.
void Encode(const PrepareOptions& options);
void Inspect(const PrepareOptions& options);
void MakeIndexes(const PrepareOptions& options);
void Pack(const PrepareOptions& options);
void Tokenize(const PrepareOptions& options);
void Verify(const PrepareOptions& options);
void Warm(const PrepareOptions& options);
std::vector<Output> PackOutputs(const PrepareOptions& options);
std::vector<Output> TokenOutputs(const PrepareOptions& options);
std::vector<Output> VerifyOutputs(const PrepareOptions& options);

const std::vector<PrepareCommand>& PrepareCommands() {
  static const std::vector<PrepareCommand> commands = {
      {"encode", "reads one JSON string per line from stdin, prints its token ids as one JSON array per line", Encode},
      {"index", "rebuilds the indexes of a data set", MakeIndexes},
      {"inspect", "prints one JSON object per record: index, label, class, bytes, sha256", Inspect},
      {"pack", "writes any readable data set as indexed shards; resumable; verifies each record", Pack, PackOutputs},
      {"tokenize", "converts raw text to token files and a dictionary in fairseq-preprocess's formats", Tokenize,
       TokenOutputs},
      {"verify",
       "reads and decodes every record, and lists bad ones; exit code 3 if there are any that "
       "--move_bad_to has not moved",
       Verify, VerifyOutputs},
      {"warm", "reads all data once with many threads, to fill the caches of the storage", Warm}};
  return commands;
}

namespace {

constexpr char kReading[] = "pack index inspect verify warm";  // commands that read a data set

using Take = std::function<bool(const std::string&)>;

// What a flag takes: what was expected, for people, and what takes it.
struct Value {
  std::string expected;
  Take take;
  const char* type = "text";  // boolean, integer, number, text
  std::vector<std::string> choices = {};
  bool takes_many = false;
  PathUse path = PathUse::kNone;

  bool is_boolean() const { return type == std::string_view("boolean"); }
};

struct Entry {
  std::string name, commands;  // commands: those with this flag, separated by blanks; empty: all
  Value value;
  std::string help;
};

Value Text(const char* expected, std::string& field, PathUse path = PathUse::kNone) {
  return {
      .expected = expected, .take = [&field](const std::string& value) { return field = value, true; }, .path = path};
}

Value Texts(const char* expected, std::vector<std::string>& field, PathUse path) {
  return {.expected = expected,
          .take = [&field](const std::string& value) { return field.push_back(value), true; },
          .takes_many = true,
          .path = path};
}

Value Word(const std::vector<std::string>& words, const std::function<void(const std::string& word)>& store) {
  return {.expected = "one of " + Joined(words, " | "),
          .take =
              [=](const std::string& value) {
                const bool is_known = std::ranges::find(words, value) != words.end();
                if (is_known) store(value);
                return is_known;
              },
          .choices = words};
}

Value Word(const std::vector<std::string>& words, std::string& field) {
  return Word(words, [&field](const std::string& word) { field = word; });
}

Value Boolean(bool& field) {
  return {.expected = "true or false",
          .take =
              [&field](const std::string& value) {
                const std::string word = command_line::BooleanWord(value);
                field = word == "true";
                return !word.empty();
              },
          .type = "boolean"};
}

bool ParseInteger(const std::string& text, int64_t lowest, int64_t highest, int64_t& number) {
  const std::optional<int64_t> parsed = WholeNumber(text);
  number = parsed.value_or(0);
  return parsed && number >= lowest && number <= highest;
}

Value Integer(int64_t& field, int64_t lowest, int64_t highest = INT64_MAX) {
  const std::string most = highest == INT64_MAX ? " or more" : " to " + std::to_string(highest);
  return {.expected = "a whole number, " + std::to_string(lowest) + most,
          .take = [=, &field](const std::string& value) { return ParseInteger(value, lowest, highest, field); },
          .type = "integer"};
}

Value Fraction(std::optional<double>& field) {
  return {.expected = "a number, 0 to 1",
          .take =
              [&field](const std::string& value) {
                field = DecimalNumber(value);
                return field && *field >= 0 && *field <= 1;
              },
          .type = "number"};
}

Value LabelOffset(std::optional<int64_t>& field) {
  constexpr int64_t kMost = 1'000'000'000;
  return {.expected = "auto, or a whole number, 0 to " + std::to_string(kMost),
          .take = [&field](const std::string& value) {
            int64_t number = 0;
            const bool is_number = ParseInteger(value, 0, kMost, number);
            field = is_number ? std::optional(number) : std::nullopt;
            return is_number || value == "auto";
          }};
}

Value Part(PrepareOptions& options) {
  return {.expected = "I/N with I from 1 to N", .take = [&options](const std::string& value) {
            const size_t slash = value.find('/');
            return slash != std::string::npos && ParseInteger(value.substr(slash + 1), 1, 100'000, options.parts) &&
                   ParseInteger(value.substr(0, slash), 1, options.parts, options.part);
          }};
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
  using enum PathUse;
  std::vector<std::string> tasks;
  for (const LabelKindFacts& kind : kLabelKinds) tasks.emplace_back(kind.task);
  const Value task = Word(tasks, [&o](const std::string& value) {
    o.labels = static_cast<LabelKind>(std::ranges::find(kLabelKinds, value, &LabelKindFacts::task) - kLabelKinds);
  });
  const Value delimiter = Word({"auto", "comma", "semicolon", "tab"},
                               [&o](const std::string& value) { o.table.delimiter = DelimiterNamed(value); });
  // clang-format off
  return {
      {"data_dir", kReading, Text("a folder", o.data_dir, kRead), "Folder with the data; for safetensors also a file."},
      {"labels", kReading, Text("FILE.csv, FILE.tsv or FILE.jsonl", o.table.path, kRead),
       "Table that names images and their labels, an image a row, in place of folders of classes. Names of images are paths "
       "below --data_dir or, without that, below the table's own folder."},
      {"image_column", kReading, Text("a column's name", o.table.image_column),
       "With --labels: column of the image's name. [default: found by its name]"},
      {"label_column", kReading, Text("names of columns", o.table.label_column),
       "With --labels: column of the label, or several with commas between them for several labels or numbers. "
       "[default: found by its name]"},
      {"split_column", kReading, Text("a column's name", o.table.split_column),
       "With --labels: column of the split. [default: split, if there is one, else all images are of train]"},
      {"label_separator", kReading, Text("a text", o.table.separator),
       "With --labels: what is between several labels in a cell. [default: a column for each label]"},
      {"csv_delimiter", kReading, delimiter, "With --labels: what separates the cells of a .csv. [default: auto]"},
      {"task", kReading, task, "What the labels of images are, as of dtrain_main: a class, several labels, or numbers. "
       "[default: image_classification]"},
      {"data_format", kReading, Word(FormatNames(), o.data_format),
       "Format of the data; auto: recognised from the contents of --data_dir. [default: auto]"},
      {"split", kReading, Text("a text", o.split), "Folder or file prefix of the split to process. [default: train and val, as far "
       "as there; for verify also test, or the folders of classes in --data_dir itself]"},
      {"index_dir", kReading, Text("a folder", o.index_dir, kWritten), "Folder for index files. [default: beside the data]"},
      {"label_offset", kReading, LabelOffset(o.label_offset), "Label of the first class in the data: a number, or auto (1 if the "
       "labels are exactly 1 to C, else 0). [default: auto]"},
      {"workers", "", Integer(o.workers, 0, 1024), "Number of threads. [default: 0: the cores of this machine; for warm 64]"},
      {"output", "pack verify tokenize", Text("a folder, or with tokenize the name of files", o.output, kWritten),
       "pack: folder to write to. verify: folder for quarantine.jsonl. tokenize: PREFIX of the files PREFIX.bin and "
       "PREFIX.idx; dict.txt and the tokenizer's files are written beside them. [default: for verify --index_dir, or "
       "--data_dir, but none for folders of images]"},
      {"input", "tokenize", Texts("a text file", o.inputs, kRead), "One or more text files; a blank line ends a document."},
      {"encoder_json", "tokenize encode", Text("a file", o.encoder_json, kRead), "File encoder.json with GPT-2's vocabulary."},
      {"vocab_bpe", "tokenize encode", Text("a file", o.vocab_bpe, kRead), "File vocab.bpe with GPT-2's merges."},
      {"tokenizer", "tokenize encode", Text("a folder", o.tokenizer, kRead),
       "Folder of a RoBERTa model with tokenizer.json, or vocab.json and merges.txt, whose token ids are used; replaces "
       "--encoder_json and --vocab_bpe."},
      {"dict", "tokenize", Text("a file", o.dict, kRead), "Dictionary file (dict.txt) to use. [default: one is counted]"},
      {"output_format", "pack", Word(WrittenFormats(), o.output_format), "Format to write: " + Joined(WrittenFormats()) + "."},
      {"short_side", "pack", Integer(o.short_side, 0, 16384), "Resize images whose short side is longer to this (antialiased) and "
       "store them as JPEG; 0: copy images byte for byte. [default: 0; pixels]"},
      {"quality", "pack", Integer(o.quality, 1, 100),
       "Quality of the JPEGs that are written. [default: 95, and pixels of a safetensors file become PNG]"},
      {"seek_points", "pack", Boolean(o.seek_points),
       "Rewrite JPEGs without changing a pixel, so that crops decode faster; adds 2 % to the size."},
      {"shards", "pack", Integer(o.shards, 0, 99999), "Number of files per split; 0: one per 2,048 records. [default: 0]"},
      {"part", "pack", Part(o),
       "I/N: write only the I-th of N parts. Run the same command with 1/N to N/N on N machines. [default: 1/1]"},
      {"max_bad_records", "pack", Fraction(o.max_bad_records), "Greatest fraction of unreadable records that is left out before "
       "packing fails. [default: 0.0001, and a few of a small set: 10, or one in 20]"},
      {"strict_data", "pack", Boolean(o.strict_data), "Fail at the first unreadable record."},
      {"move_bad_to", "verify", Text("a folder", o.move_bad_to, kWritten),
       "Move bad image files into this folder, outside of the data, under split and class. For whoever has photos of which "
       "some are broken. [default: none]"},
      {"decode", "inspect", Boolean(o.decode), "Decode images and add width, height and mean_rgb, or error."},
      {"limit", "inspect", Integer(o.limit, 0), "Number of records per split; 0: all. [default: 0]"},
  };
  // clang-format on
}

// Notes where a flag says that is written; the last one counts. A file that is there must be empty.
void Write(const Entry& entry, const std::string& path, PrepareOptions& options) {
  const std::string flag = "--" + entry.name;
  std::erase_if(options.written, [&flag](const Output& output) { return output.flag == flag; });
  options.written.push_back({.flag = flag, .path = path, .in_folder = entry.value.expected == "a folder"});
}

bool BelongsTo(const Entry& entry, const std::string& command) {
  return entry.commands.empty() || (" " + entry.commands + " ").find(" " + command + " ") != std::string::npos;
}

// Returns the help on `command`, or on all commands if it is empty.
std::string Help(const std::vector<Entry>& table, const std::string& command) {
  std::string text = "Usage: dtrain_data " + (command.empty() ? "COMMAND" : command) + " [--flag=value ...]\n";
  if (command.empty()) text += "Prepares and checks data.\n\n";
  for (const PrepareCommand& known : PrepareCommands()) {
    if (command.empty()) text += "  " + known.name + std::string(10 - known.name.size(), ' ') + known.purpose + "\n";
    if (command == known.name) text += std::string(known.purpose) + "\n";
  }
  text +=
      "\nWrite --flag=value or --flag value; for booleans, --flag or --noflag. In names, - and _ are the same.\n"
      "--flagfile=FILE reads flags from FILE, one per line; --help shows this text (--help=json for programs), "
      "--version the version.\n\n";
  for (const Entry& entry : table) {
    if (!command.empty() && !BelongsTo(entry, command)) continue;
    const std::string left = (entry.value.is_boolean() ? "  --[no]" : "  --") + entry.name;
    text += left + std::string(left.size() < 22 ? 22 - left.size() : 1, ' ');
    if (!entry.commands.empty() && command.empty()) text += entry.commands + ": ";
    text += entry.help;
    if (entry.value.path == PathUse::kWritten) {
      text.ends_with(']') ? text.replace(text.size() - 1, 1, "; written]") : text += " [written]";
    }
    text += "\n";
  }
  return text;
}

// Returns --help=json: the same keys as of the other programs, made from the sentences of the table.
std::string HelpJson(const std::vector<Entry>& table, const std::string& version) {
  nlohmann::ordered_json json = {{"program", "dtrain_data"}, {"version", version}};
  for (const PrepareCommand& command : PrepareCommands()) json["commands"].push_back(command.name);
  for (const Entry& entry : table) {
    const Value& value = entry.value;
    nlohmann::ordered_json flag = {
        {"name", entry.name}, {"type", value.type}, {"expected", value.expected}, {"help", entry.help}};
    if (const size_t at = entry.help.find("[default: "); at != std::string::npos) {
      flag["default"] = entry.help.substr(at + 10, entry.help.find_first_of(":;,]", at + 10) - at - 10);
    }
    std::istringstream commands(entry.commands);
    for (std::string command; commands >> command;) flag["commands"].push_back(command);
    if (!value.choices.empty()) flag["choices"] = value.choices;
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

void CheckTogether(const PrepareOptions& options, const std::set<std::string>& given,
                   std::vector<std::string>& mistakes) {
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
  if (!given.contains("output_format")) {
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
      if (entry.value.path == PathUse::kRead) result.options.read.push_back(value);
      if (entry.value.path == PathUse::kWritten && entry.name != "output") Write(entry, value, result.options);
      return entry.value.take(value);
    };
    flags.push_back({entry.name, entry.value.is_boolean(), entry.value.expected, take, entry.value.takes_many});
  }
  std::vector<std::string> commands, mistakes;
  for (const PrepareCommand& command : PrepareCommands()) commands.push_back(command.name);
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
  CheckTogether(result.options, given, mistakes);
  if (mistakes.empty()) return result;
  throw Error(ExitCode::kUsage, command_line::TextOf(mistakes), "dtrain_data --help lists all commands and flags");
}

}  // namespace dtrain::data
