#include "data/formats/sentence_files.h"

#include <algorithm>
#include <utility>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/image/codecs.h"
#include "data/joined.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr std::pair<const char*, const char*> kTableEndings[] = {
    {".tsv", ".TSV"}, {".csv", ".CSV"}, {".jsonl", ".JSONL"}, {".json", ".JSON"}};

constexpr const char* kWordEndings[] = {".conll", ".bio", ".iob", ".iob2"};

bool IsTextOfColumns(const std::string& path) {
  constexpr uint64_t kBeginning = 1 << 14;
  return IsFile(path) && LooksLikeColumns(AsText(ReadBeginning(path, kBeginning)));
}

// Adds what is there under one name.
void AddFiles(const std::string& data_dir, const std::string& name, std::vector<SentenceFiles>& found) {
  for (const auto& [ending, upper] : kTableEndings) {
    const std::string named = data_dir + "/" + name;
    if ((name.ends_with(ending) || name.ends_with(upper)) && IsFile(named))
      found.push_back({SentenceLayout::kTable, name, named});
    for (const std::string& path : {data_dir + "/" + name + ending, data_dir + "/" + name + upper}) {
      if (!IsFile(path)) continue;
      found.push_back({SentenceLayout::kTable, name, path});
      break;  // one file has both names where case does not matter
    }
  }
  for (const char* ending : kWordEndings) {
    const std::string path = data_dir + "/" + name + ending;
    if (IsFile(path)) found.push_back({SentenceLayout::kWords, name, path});
  }
  const std::string text = data_dir + "/" + name + ".txt";
  if (IsTextOfColumns(text)) found.push_back({SentenceLayout::kWords, name, text});
  const std::string folder = data_dir + "/" + name, input = data_dir + "/input0/" + name;
  if (HasTextFolders(folder)) found.push_back({SentenceLayout::kClassFolders, name, folder});
  if (IsFile(input + ".bin") && IsFile(input + ".idx")) {
    found.push_back({SentenceLayout::kBinarised, name, data_dir});
  }
}

std::string ShownAs(const SentenceFiles& files) {
  return files.layout == SentenceLayout::kBinarised ? files.path + "/input0/" + files.split + ".bin" : files.path;
}

enum class Kind { kNothing, kTexts, kImages };

// The first image decides, so that a large folder is not read to its end. `below`: also one in its folders, as in Tiny
// ImageNet, whose texts are boxes.
Kind KindIn(const std::string& class_folder, bool below = false) {
  Kind kind = Kind::kNothing;
  try {
    List(class_folder, [&](const std::string& name, PathKind path) {
      if (IsForeignName(name)) return true;
      if (name.ends_with(".txt")) kind = Kind::kTexts;
      const bool is_folder = below && path == PathKind::kFolder;
      if (IsImage(name) || (is_folder && HasImages(class_folder + "/" + name))) kind = Kind::kImages;
      return kind != Kind::kImages;
    });
  } catch (const DataError&) {  // whoever reads the folder reports it
  }
  return kind;
}

}  // namespace

std::vector<std::string> SentenceSplitNames(const std::string& split) {
  std::vector<std::string> names = SplitNames(split);
  if (names.front() == "val") names.insert(names.end(), {"dev", "dev_matched"});
  return names;
}

bool LooksLikeColumns(std::string_view text) {
  constexpr std::string_view kTagLetters = "BIESLU";
  size_t columns = 0, lines = 0;
  bool has_blank = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos && lines > 1) break;  // the beginning may end within a line
    const std::vector<std::string_view> cells = ColumnsIn(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    has_blank |= cells.empty();
    if (cells.empty() || cells.front() == kDocumentStart) continue;
    const std::string_view tag = cells.back();
    const bool is_tag = tag == "O" || (tag.size() > 2 && tag[1] == '-' && kTagLetters.find(tag[0]) != tag.npos);
    if (cells.size() < 2 || !is_tag || (lines++ > 0 && cells.size() != columns)) return false;
    columns = cells.size();
  }
  return lines > 1 && has_blank;
}

std::vector<std::string_view> ColumnsIn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find_first_not_of(" \t") == line.npos) return {};
  const bool has_tabs = line.find('\t') != line.npos;
  std::vector<std::string_view> cells;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(has_tabs ? '\t' : ' ', begin), line.size());
    if (has_tabs || end > begin) cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

bool HasTextFolders(const std::string& split_dir) {
  for (const std::string& name : ContentOf(split_dir).folders) {
    const Kind kind = KindIn(split_dir + "/" + name, /*below=*/true);
    if (kind != Kind::kNothing) return kind == Kind::kTexts;
  }
  return false;
}

std::optional<std::string> FindTextFile(const std::string& data_dir, const std::string& split) {
  for (const std::string& name : SplitNames(split)) {
    std::string path = data_dir + "/" + name + ".txt";
    if (IsFile(path)) return path;
  }
  return std::nullopt;
}

bool HasImages(const std::string& folder) { return KindIn(folder) == Kind::kImages; }

std::optional<SentenceFiles> FindSentenceFiles(const std::string& data_dir, const std::string& split) {
  for (const std::string& name : SentenceSplitNames(split)) {
    std::vector<SentenceFiles> found;
    AddFiles(data_dir, name, found);
    if (found.size() > 1) {
      throw DataError(
          data_dir + " holds the split '" + split + "' twice: " + ShownAs(found[0]) + " and " + ShownAs(found[1]),
          "keep one of them there, or name a table with its ending, as in --train_split=train.csv");
    }
    if (!found.empty()) return found.front();
  }
  return std::nullopt;
}

SentenceFiles RequireSentenceFiles(const std::string& data_dir, const std::string& split) {
  if (auto found = FindSentenceFiles(data_dir, split)) return *found;
  if (!IsFolder(data_dir)) throw DataError("there is no folder " + data_dir);
  throw DataError("there is no '" + split + "' split in " + data_dir + ": looked for the names " +
                      Joined(SentenceSplitNames(split)),
                  "a split is a table NAME.tsv, NAME.csv or NAME.jsonl (a Parquet file is to be written as one), "
                  "columns of words NAME.conll, folders of texts "
                  "NAME/CLASS/*.txt, or fairseq's input0/NAME.bin and .idx");
}

}  // namespace dtrain::data
