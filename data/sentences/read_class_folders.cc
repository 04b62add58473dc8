// Class folders of texts (sentence_set.h).
#include <algorithm>
#include <utility>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/in_parallel.h"
#include "data/sentences/sentence_set.h"
#include "data/storage.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr size_t kFilesAtOnce = 4096;
constexpr char kUnlabelledFolder[] = "unsup";

FolderContent ReadableContent(const std::string& folder) {
  FolderContent content = ContentOf(folder);
  if (!content.problem.empty()) throw DataError(content.problem);
  return content;
}

void Count(const std::vector<std::string>& names, IgnoredFiles& ignored) {
  for (const std::string& name : names) CountIgnored(name, ignored);
}

// Returns the names of the texts in a class folder. Counts the others.
std::vector<std::string> TextsIn(const std::string& folder, IgnoredFiles& ignored) {
  FolderContent content = ReadableContent(folder);
  const auto others = std::stable_partition(content.files.begin(), content.files.end(),
                                            [](const std::string& name) { return name.ends_with(".txt"); });
  Count({others, content.files.end()}, ignored);
  Count(content.folders, ignored);
  Count(content.others, ignored);
  content.files.erase(others, content.files.end());
  return content.files;
}

std::string ReadText(const std::string& path) {
  std::string text(WithoutByteOrderMark(ReadWholeText(path, kMostCellBytes)));
  if (!IsUtf8(text)) throw DataError(path + " is not UTF-8", "convert the file to UTF-8");
  if (text.find('\0') != std::string::npos) {
    throw DataError(path + " holds a NUL character",
                    "remove it: texts have none, so the file is probably damaged or in UTF-16");
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

void ReadClass(const std::string& folder, const std::string& name, const std::vector<std::string>& files,
               SentenceCollector& collector) {
  if (files.empty()) throw DataError(folder + " has no texts (*.txt)", "remove the folder, or put texts into it");
  for (size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
    std::vector<RawSentence> rows(std::min(kFilesAtOnce, files.size() - begin));
    const auto read = [&](size_t i) { rows[i].text.text = ReadText(folder + "/" + files[begin + i]); };
    InParallel(rows.size(), read, 64);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].label = name;
      rows[i].place.file = collector.AddFile(folder + "/" + files[begin + i], rows[i].text.text.size());
    }
    collector.Add(std::move(rows));
  }
}

}  // namespace

SentenceSet ReadClassFolders(const std::string& split_dir, const SentenceOptions& options,
                             const SentenceTokenizer& tokenizer) {
  if (options.is_pair.value_or(false)) {
    throw DataError(split_dir + " has single texts in class folders, but the model and the training data have pairs");
  }
  if (options.target.has(LabelKind::kNumbers)) {
    throw DataError(split_dir + " has a folder for each class, which are no numbers to predict",
                    "use --task=text_classification, or a table with a column of numbers");
  }
  SentenceCollector collector(options, &tokenizer, false);
  IgnoredFiles other;
  const FolderContent content = ReadableContent(split_dir);
  Count(content.files, other);
  Count(content.others, other);
  if (content.folders == std::vector<std::string>{kUnlabelledFolder}) {
    throw DataError(split_dir + " has no class folder: the texts in " + kUnlabelledFolder + " have no label",
                    "put texts with a label into a folder for each class: " + split_dir + "/CLASS/*.txt");
  }
  for (const std::string& name : content.folders) {
    const std::string folder = split_dir + "/" + name;
    const std::vector<std::string> files = TextsIn(folder, other);
    if (name == kUnlabelledFolder) {
      collector.LeaveOut(static_cast<int64_t>(files.size()));
    } else {
      ReadClass(folder, name, files, collector);
    }
  }
  SentenceSet set = collector.Take();
  set.ignored = other;
  set.columns = "texts of class folders";
  return set;
}

}  // namespace dtrain::data
