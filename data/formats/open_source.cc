#include "data/formats/open_source.h"

#include <array>
#include <filesystem>

#include "data/error.h"
#include "data/formats/image_folder.h"
#include "data/formats/image_folder_index.h"
#include "data/formats/packed_records.h"
#include "data/formats/record_files.h"
#include "data/formats/tensor_file.h"

namespace dtrain::data {
namespace {

constexpr std::array<const char*, 5> kFormats = {"safetensors", "tfrecord", "recordio", "webdataset", "imagefolder"};

// A folder of the split's name counts where it holds folders, which are classes; one of shards does not.
bool HasClassFolders(const std::string& split_dir) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(split_dir, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) return true;
  }
  return false;
}

}  // namespace

bool HasSplit(const std::string& format, const std::string& data_dir, const std::string& split) {
  if (format == "safetensors") return FindTensorFile(data_dir, split).has_value();
  if (format == "imagefolder") return FindSplit(data_dir, split).has_value();
  return !FindRecordFiles(data_dir, split, format).names.empty();
}

std::string DetectFormat(const std::string& data_dir, const std::vector<std::string>& splits) {
  for (const std::string& split : splits) {
    std::string found;
    for (const std::string format : kFormats) {
      if (!HasSplit(format, data_dir, split)) continue;
      if (format == "imagefolder" && !found.empty() && !HasClassFolders(*FindSplit(data_dir, split))) continue;
      if (!found.empty()) {
        throw DataError(data_dir + " holds the split '" + split + "' as " + found + " and as " + format,
                        "say which one: --data_format=" + found + " or --data_format=" + format);
      }
      found = format;
    }
    if (!found.empty()) return found;
  }
  return "imagefolder";  // its message says what is missing
}

std::unique_ptr<RecordSource> OpenSource(const SourceOptions& options, const std::string& split) {
  if (options.format == "safetensors") {
    return std::make_unique<TensorFile>(RequireTensorFile(options.data_dir, split), options.label_offset);
  }
  if (options.format == "imagefolder") {
    const std::string split_dir = RequireSplit(options.data_dir, split);
    const std::string name = std::filesystem::path(split_dir).filename().string();
    const std::string index_path = IndexPath(options.data_dir, options.index_dir, name, options.format);
    return std::make_unique<ImageFolder>(split_dir,
                                         IndexImageFolder(split_dir, index_path, options.rebuild_index, options.note));
  }
  const RecordFormat* format = FindRecordFormat(options.format);
  if (format == nullptr) throw DataError("data of the format " + options.format + " cannot be read here");
  const RecordFiles files = RequireRecordFiles(options.data_dir, split, options.format);
  const std::string index_path = IndexPath(options.data_dir, options.index_dir, files.split, options.format);
  RecordIndex index =
      IndexRecordFiles(*format, options.data_dir, files, index_path, options.rebuild_index, options.note);
  return std::make_unique<PackedRecords>(*format, options.data_dir, std::move(index), options.label_offset);
}

int64_t LabelOffsetOf(const RecordSource& source) {
  if (const auto* packed = dynamic_cast<const PackedRecords*>(&source)) return packed->label_offset();
  if (const auto* tensors = dynamic_cast<const TensorFile*>(&source)) return tensors->label_offset();
  return 0;
}

}  // namespace dtrain::data
