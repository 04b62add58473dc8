#include "data/formats/record_format.h"

#include <unistd.h>

#include <cctype>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "data/folder_names.h"
#include "data/joined.h"

namespace dtrain::data {

// Each in the file of its format.
const RecordFormat& TfRecordFiles();
const RecordFormat& RecordIoFiles();
const RecordFormat& WebDatasetFiles();

namespace {

bool AllDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "PREFIX-00003-of-00010" → 3 and 10.
struct ShardNumber {
  std::string number, count;
  size_t begin = 0;  // of the number, in the name
};

std::optional<ShardNumber> ParseShardNumber(std::string_view name) {
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || !AllDigits(name.substr(of + 4))) return std::nullopt;
  const size_t dash = name.substr(0, of).rfind('-');
  if (dash == std::string_view::npos || !AllDigits(name.substr(dash + 1, of - dash - 1))) return std::nullopt;
  return ShardNumber{std::string(name.substr(dash + 1, of - dash - 1)), std::string(name.substr(of + 4)), dash + 1};
}

std::string_view WithoutExtension(std::string_view name, const RecordFormat& format) {
  for (const std::string& extension : format.extensions()) {
    if (name.ends_with(extension)) return name.substr(0, name.size() - extension.size());
  }
  return name;
}

bool HasFormat(std::string_view name, const RecordFormat& format) {
  const auto has_extension_of = [&name](const RecordFormat* of) { return WithoutExtension(name, *of) != name; };
  const auto shard = ParseShardNumber(name);
  if (!shard) return has_extension_of(&format);
  name = name.substr(0, shard->begin - 1);
  return has_extension_of(&format) || (format.is_numbered() && std::ranges::none_of(RecordFormats(), has_extension_of));
}

// Whether the name is the prefix, alone or followed by anything but a letter: train-00000, train_480_q90, train.tar.
bool HasPrefix(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  const std::string_view rest = name.substr(prefix.size());
  return rest.empty() || std::isalpha(static_cast<unsigned char>(rest[0])) == 0;
}

// `numbers` have leading zeros and equal lengths.
std::string FirstMissing(const std::set<std::string>& numbers) {
  for (int64_t i = 0;; ++i) {
    if (std::string number = WithZeros(i, numbers.begin()->size()); !numbers.contains(number)) return number;
  }
}

// A numbered set must be complete: otherwise a shard that was not copied would go unnoticed. A `split` that ends within
// the numbers, such as train-0000, chooses some of them.
void RequireAllShards(const std::string& data_dir, const std::string& split, const std::vector<std::string>& names,
                      const RecordFormat& format) {
  std::set<std::string> sets, counts, numbers;
  for (const std::string& name : names) {
    const auto shard = ParseShardNumber(WithoutExtension(name, format));
    if (!shard || (name.starts_with(split) && split.size() > shard->begin)) return;
    sets.insert(name.substr(0, shard->begin) + shard->count);
    counts.insert(shard->count);
    numbers.insert(shard->number);
  }
  const bool takes_all = split == ".";  // of the folder itself
  if ((takes_all ? counts : sets).size() > 1) {
    throw DataError(data_dir + " holds shards of several sets: " + names.front() + " and " + names.back(),
                    "keep one set in a folder");
  }
  if (counts.begin()->size() > 9 || std::stoul(*counts.begin()) == numbers.size()) return;
  throw DataError(data_dir + " has " + std::to_string(numbers.size()) + " of " + *counts.begin() + " shards of " +
                      names.front() + " …; the first one that is missing is number " + FirstMissing(numbers),
                  kCopyShards);
}

// Returns the names of a folder's record files that `is_of_split` takes. Throws DataError if others of the split are
// compressed: they would be left out in silence.
std::vector<std::string> FilesIn(const std::string& folder, const RecordFormat& format,
                                 const std::function<bool(const std::string& name)>& is_of_split) {
  const FolderContent content = ContentOf(folder);
  // The rest of a listing that broke off would be missing. Where this rank may not list, another one does.
  const bool may_list = IsFolder(folder) && access(folder.c_str(), R_OK) == 0;
  if (!content.problem.empty() && may_list) throw DataError(content.problem);
  const std::vector<std::string>& all = content.files;
  std::vector<std::string> names, compressed;
  for (const std::string& name : all) {
    const std::string file = Decompressed(name);
    if (!HasFormat(file, format) || !is_of_split(name)) continue;
    if (file == name) {
      names.push_back(name);
    } else if (!std::ranges::binary_search(all, file)) {
      compressed.push_back(name);
    }
  }
  if (names.empty() || compressed.empty()) return names;
  throw DataError(folder + " holds " + CountOf(compressed.size(), "compressed file") + " beside " + names.front() +
                      ": " + FirstOf(compressed, /*most=*/3),
                  "decompress the files, as with gunzip: samples are read from anywhere in them; or move them away");
}

std::string Patterns(const RecordFormat& format, const std::string& split) {
  return (format.is_numbered() ? format.FileName(split, 0, 10) + " …, " : "") + split + "*" +
         format.extensions().front();
}

}  // namespace

const std::vector<const RecordFormat*>& RecordFormats() {
  static const std::vector<const RecordFormat*> formats = {
      &TfRecordFiles(),
      &RecordIoFiles(),
      &WebDatasetFiles(),
  };
  return formats;
}

std::string Decompressed(const std::string& name) {
  for (const auto& [ending, instead] :
       {std::pair(".tgz", ".tar"), {".gz", ""}, {".zst", ""}, {".bz2", ""}, {".xz", ""}, {".lz4", ""}}) {
    if (name.ends_with(ending)) return name.substr(0, name.rfind('.')) + instead;
  }
  return name;
}

const RecordFormat* FindRecordFormat(const std::string& name) {
  const auto found =
      std::ranges::find_if(RecordFormats(), [&](const RecordFormat* format) { return format->name() == name; });
  return found == RecordFormats().end() ? nullptr : *found;
}

uint64_t RecordFormat::FindRecord(const ReadableBytes& file, uint64_t from) const {
  constexpr uint64_t kSearchBytes = uint64_t{1} << 20;
  const auto [bytes, alignment, is_certain] = beginning();
  from = (from + alignment - 1) / alignment * alignment;
  while (bytes > 0 && from + bytes <= file.size()) {
    const std::vector<uint8_t> window = file.ReadBytes(from, std::min(kSearchBytes, file.size() - from));
    uint64_t at = 0;
    for (; at + bytes <= window.size(); at += alignment) {
      if (!MayBegin(&window[at])) continue;
      try {
        const auto record = Scan(file, from + at);
        return record ? record->begin : file.size();
      } catch (const DamagedRecord&) {  // or no record
      } catch (const DataError&) {
        if (is_certain) return from + at;
      }
    }
    from += at;
  }
  return file.size();
}

RecordFiles FindRecordFiles(const std::string& data_dir, const std::string& split, const RecordFormat& format) {
  for (const std::string& prefix : SplitNames(split)) {
    const auto has_prefix = [&prefix](const std::string& name) { return HasPrefix(name, prefix); };
    RecordFiles files{.split = prefix, .names = FilesIn(data_dir, format, has_prefix)};
    if (files.names.empty()) {
      files.names = FilesIn(data_dir + "/" + prefix, format, [](const auto& /*name*/) { return true; });
      for (std::string& name : files.names) name.insert(0, prefix + "/");
    }
    if (files.names.empty()) continue;
    if (format.is_numbered()) RequireAllShards(data_dir, prefix, files.names, format);
    return files;
  }
  return {};
}

std::string MissingShard(const std::vector<std::string>& names, const RecordFormat& format) {
  std::string expected, digits;  // the next name, up to its extension
  for (const std::string& name : names) {
    const std::string_view stem = WithoutExtension(name, format);
    const size_t begin = stem.find_last_not_of("0123456789") + 1;
    const std::string_view set = stem.substr(0, begin), number = stem.substr(begin);
    const bool goes_on = expected.size() == stem.size() && expected.starts_with(set) && digits.starts_with('0');
    if (goes_on && expected < stem) return expected + name.substr(stem.size());
    digits = number.size() > 18 ? "" : number;
    expected = digits.empty() ? "" : std::string(set) + WithZeros(std::stoll(digits) + 1, digits.size());
  }
  return {};
}

RecordFiles RequireRecordFiles(const std::string& data_dir, const std::string& split, const RecordFormat& format) {
  RecordFiles files = FindRecordFiles(data_dir, split, format);
  if (!files.names.empty()) return files;
  if (!IsFolder(data_dir)) throw DataError("there is no folder " + data_dir);
  const auto patterns = [&](const std::string& name) { return Patterns(format, name); };
  const std::string tried = Joined(SplitNames(split), ", ", patterns);
  throw DataError("there is no '" + split + "' split in " + data_dir + ": looked for " + tried,
                  "dtrain_data pack writes these files");
}

}  // namespace dtrain::data
