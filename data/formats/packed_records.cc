#include "data/formats/packed_records.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/labels.h"
#include "data/joined.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

std::string At(const std::string& path, uint64_t offset) { return path + " at byte " + std::to_string(offset); }

class Scanner {
 public:
  Scanner(const RecordFormat& format, const ReadableBytes& file, const std::string& path,
          std::span<const IndexEntry> known, LabelKind kind, std::vector<float>* values)
      : format_(format), file_(file), path_(path), known_(known), kind_(kind), values_(values) {}

  std::vector<IndexEntry> Run() && {
    uint64_t offset = 0;
    bool ended = false;
    while (offset < file_.size()) {
      try {
        const auto record = ended ? std::nullopt : format_.Scan(file_, offset);
        if (record) {
          Add(*record);
          offset = record->end;
          continue;
        }
        ended = true;  // nothing follows that Scan could read
        if (KnownFrom(offset) == known_.end()) break;
        offset =
            Damaged(offset, DamagedRecord("the end mark of the archive comes before records that the index lists"));
      } catch (const DamagedRecord& damage) {
        offset = Damaged(offset, damage);
      } catch (const DataError& error) {
        throw DataError(At(path_, offset) + ": " + error.what(), error.hint());
      }
    }
    if (intact_ == 0 && !records_.empty()) {
      throw DataError(At(path_, records_.front().offset) + ": " + first_damage_ + "; no record of it is intact",
                      "is it a " + format_.name() + " file? If it is compressed, decompress it, as with gunzip");
    }
    return std::move(records_);
  }

 private:
  using Known = std::span<const IndexEntry>::iterator;

  // Returns the first known record that begins at or behind `offset`.
  Known KnownFrom(uint64_t offset) const { return std::ranges::lower_bound(known_, offset, {}, &IndexEntry::offset); }

  void Add(const ScannedRecord& record) {
    if (kind_ != LabelKind::kClass) return AddValues(record);
    if (record.label < 0 && record.values.size() > 1) {
      throw DataError("the label has " + CountOf(record.values.size(), "value") + " where one class is expected",
                      "several labels are for --task=image_multilabel, numbers for --task=image_regression");
    }
    if (record.label < 0 || record.label > std::numeric_limits<int32_t>::max()) {
      throw DataError(record.values.empty() ? "the label has no value"
                                            : "label " + std::to_string(record.values.front()) + " is not a class",
                      "a class is a whole number (in TFRecord an int64), counted from 0 or from 1");
    }
    records_.push_back({record.begin, record.end - record.begin, 0, static_cast<int32_t>(record.label)});
    ++intact_;
  }

  void AddValues(const ScannedRecord& record) {
    for (const double value : record.values) {
      const auto stored = static_cast<float>(value);
      const bool is_class = value >= 0 && value <= kMostClass && value == std::floor(value);
      if (kind_ == LabelKind::kSeveral ? !is_class : !std::isfinite(stored)) {
        throw DataError("label " + std::to_string(value) + " is not a " +
                        (kind_ == LabelKind::kSeveral ? "class" : "finite number of 32 bits"));
      }
      values_->push_back(stored);
    }
    if (kind_ == LabelKind::kSeveral) {
      std::vector<double> classes = record.values;
      std::ranges::sort(classes);
      if (const auto twice = std::ranges::adjacent_find(classes); twice != classes.end()) {
        throw DataError("the label names class " + std::to_string(static_cast<int64_t>(*twice)) + " twice",
                        "a label lists the numbers of the classes that hold: [1, 3], not [0, 1, 0, 1]");
      }
    }
    records_.push_back({record.begin, record.end - record.begin, 0, static_cast<int32_t>(record.values.size())});
    ++intact_;
  }

  // Adds an entry for the damage at `offset` and returns where to continue.
  uint64_t Damaged(uint64_t offset, const DamagedRecord& damage) {
    if (first_damage_.empty()) first_damage_ = damage.what();
    const Known here = KnownFrom(offset);
    const bool is_known = here != known_.end() && here->offset == offset;
    if (!is_known && !records_.empty()) {
      // If the length of the record before is damaged and too small, `offset` lies within that record.
      const Known before = KnownFrom(records_.back().offset);
      const uint64_t end = before != known_.end() ? before->offset + before->bytes : 0;
      if (before != known_.end() && before->offset == records_.back().offset && end > offset && BeginsAt(end)) {
        records_.back().bytes = end - records_.back().offset;
        return end;
      }
    }
    uint64_t end = damage.end().value_or(0);
    if (is_known && BeginsAt(here->offset + here->bytes)) end = here->offset + here->bytes;
    if (end <= offset) end = format_.FindRecord(file_, offset + 1);
    records_.push_back({offset, end - offset, 0, is_known && kind_ == LabelKind::kClass ? here->label : -1});
    return end;
  }

  // Whether an intact or a known record begins here, or the file ends.
  bool BeginsAt(uint64_t offset) const {
    if (offset >= file_.size()) return offset == file_.size();
    const Known known = KnownFrom(offset);
    if (known != known_.end() && known->offset == offset) return true;
    return format_.FindRecord(file_, offset) == offset;
  }

  const RecordFormat& format_;
  const ReadableBytes& file_;
  const std::string& path_;
  const std::span<const IndexEntry> known_;
  const LabelKind kind_;
  std::vector<float>* const values_;
  std::vector<IndexEntry> records_;
  size_t intact_ = 0;
  std::string first_damage_;
};

// Returns the names whose size and time are watched: the shards and the file of class names.
std::vector<std::string> WatchedNames(const RecordFiles& files) {
  std::vector<std::string> names = files.names;
  names.emplace_back(kClassFile);
  return names;
}

std::string Fingerprint(const std::vector<IndexedFile>& files, size_t shards) {
  Sha256 hash;
  for (size_t i = 0; i < shards; ++i) hash.UpdateText(files[i].name).UpdateInteger(files[i].bytes);
  return hash.Hex();
}

// Returns the records that an old index has for each file whose size is unchanged.
std::map<std::string, std::vector<IndexEntry>> KnownRecords(const std::optional<RecordIndex>& old,
                                                            const std::vector<IndexedFile>& files) {
  std::map<std::string, std::vector<IndexEntry>> known;
  if (!old) return known;
  std::map<std::string, int64_t> sizes;
  for (const IndexedFile& file : files) sizes[file.name] = file.bytes;
  for (const IndexEntry& entry : old->records) {
    const IndexedFile& file = old->files[entry.file];
    const auto now = sizes.find(file.name);
    if (now != sizes.end() && now->second == file.bytes) known[file.name].push_back(entry);
  }
  return known;
}

// Returns where records begin according to the format's own index; empty without one.
std::vector<IndexEntry> RecordsOfOwnIndex(const RecordFormat& format, const std::string& path, uint64_t bytes) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // enough for tens of millions of records
  const std::string index = format.IndexBeside(path);
  try {
    return index.empty() ? std::vector<IndexEntry>() : format.KnownRecords(TextBeside(index, kMostBytes), bytes);
  } catch (const DataError&) {  // the records are then found without it
    return {};
  }
}

RecordIndex BuildIndex(const RecordFormat& format, const std::string& data_dir, const RecordFiles& files,
                       std::vector<IndexedFile> found, const std::optional<RecordIndex>& old, LabelKind kind) {
  const auto known = KnownRecords(old, found);
  std::vector<std::vector<IndexEntry>> scanned(files.names.size());
  std::vector<std::vector<float>> values(files.names.size());
  std::vector<uint8_t> is_cut(files.names.size());
  const auto scan = [&](size_t i) {
    const std::string path = data_dir + "/" + files.names[i];
    const RandomAccessFile file(path);
    const auto entries = known.find(files.names[i]);
    std::vector<IndexEntry> starts = entries != known.end() ? entries->second : std::vector<IndexEntry>();
    if (starts.empty()) starts = RecordsOfOwnIndex(format, path, file.size());
    scanned[i] = ScanRecords(format, file, path, starts, kind, &values[i]);
    if (scanned[i].empty()) {
      throw DataError("no record in " + path + (file.size() == 0 ? ": it is empty" : ""),
                      "check that it was written and copied completely; remove a shard that is meant to be empty");
    }
    const IndexEntry& last = scanned[i].back();
    is_cut[i] = last.label >= 0 && !format.MayEnd(file, last.offset + last.bytes) ? 1 : 0;
  };
  InParallel(files.names.size(), scan, /*items_per_thread=*/1);

  std::string fingerprint = Fingerprint(found, files.names.size());
  RecordIndex index{.format = IndexFormat(format.name(), kind),
                    .fingerprint = std::move(fingerprint),
                    .class_names = ReadClassNames(data_dir),
                    .files = std::move(found),
                    .records = {},
                    .names = {}};
  for (size_t i = 0; i < scanned.size(); ++i) {
    for (IndexEntry& entry : scanned[i]) {
      entry.file = static_cast<uint32_t>(i);
      index.records.push_back(entry);
    }
    index.values.insert(index.values.end(), values[i].begin(), values[i].end());
    if (is_cut[i] != 0) index.cut.push_back(files.names[i]);
  }
  return index;
}

}  // namespace

size_t OpenFiles::MostOpen() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 0;
  return std::clamp<size_t>(limit.rlim_cur / 16, 256, 4096);
}

std::vector<IndexEntry> ScanRecords(const RecordFormat& format, const ReadableBytes& file, const std::string& path,
                                    std::span<const IndexEntry> known, LabelKind kind, std::vector<float>* values) {
  return Scanner(format, file, path, known, kind, values).Run();
}

RecordIndex IndexRecordFiles(const RecordFormat& format, const std::string& data_dir, const RecordFiles& files,
                             const KeptIndex& kept, LabelKind kind) {
  std::vector<IndexedFile> found = StatFiles(data_dir, WatchedNames(files));
  if (found.back().bytes < 0) found.back() = {kClassFile, 0, 0};  // classes.txt is optional
  return FreshIndex(
      kept, IndexFormat(format.name(), kind), [&](const RecordIndex& old) { return old.files == found; },
      [&](const auto& old) { return BuildIndex(format, data_dir, files, found, old, kind); });
}

PackedRecords::PackedRecords(const RecordFormat& format, const std::string& data_dir, RecordIndex index,
                             std::optional<int64_t> user_offset, Classes classes, LabelKind kind)
    : format_(format), data_dir_(data_dir), index_(std::move(index)), kind_(kind), files_([&] {
        std::vector<std::string> paths;
        for (const IndexedFile& file : index_.files) paths.push_back(data_dir + "/" + file.name);
        return paths;
      }()) {
  if (index_.records.empty()) throw DataError("no record in " + files_.path(0));
  uint64_t values = 0;
  for (size_t i = 0; kind != LabelKind::kClass && i < index_.records.size(); ++i) {
    value_ends_.push_back(values += static_cast<uint64_t>(std::max(0, index_.records[i].label)));
  }
  classes = WithNames(std::move(classes), index_.class_names, data_dir + "/" + kClassFile);
  classes_ = kind == LabelKind::kNumbers ? NumbersOfRecords(std::move(classes))
                                         : ClassesOfRecords(user_offset, std::move(classes));
}

Classes PackedRecords::ClassesOfRecords(std::optional<int64_t> user_offset, Classes classes) const {
  std::vector<int64_t> labels;
  labels.reserve(index_.records.size());
  for (const IndexEntry& entry : index_.records) {
    if (kind_ == LabelKind::kClass) labels.push_back(entry.label);
  }
  for (const float value : index_.values) labels.push_back(static_cast<int64_t>(value));
  const auto where_is = [this](int64_t label) {
    size_t at = 0;
    const auto has = [&](size_t record) {
      if (kind_ == LabelKind::kClass) return index_.records[record].label == label;
      return std::ranges::count(ValuesOf(record), static_cast<float>(label)) > 0;
    };
    while (at + 1 < index_.records.size() && !has(at)) ++at;
    return Location(static_cast<int64_t>(at));
  };
  return ResolveLabels(std::move(labels), user_offset, std::move(classes), where_is);
}

Classes PackedRecords::NumbersOfRecords(Classes classes) const {
  std::optional<int64_t> numbers;
  for (size_t i = 0; i < index_.records.size(); ++i) {
    const int64_t count = index_.records[i].label;
    if (count == numbers || count < 0) continue;
    if (numbers || count == 0) {
      throw DataError(Location(static_cast<int64_t>(i)) + ": the label has " + CountOf(count, "number") +
                          (numbers ? ", but those before it have " + std::to_string(*numbers) : ""),
                      "every record needs the same numbers");
    }
    numbers = count;
  }
  if (classes.count != 0 && classes.count != numbers.value_or(0)) {
    throw DataError(data_dir_ + " has " + CountOf(numbers.value_or(0), "number") + " a record, but " +
                        std::to_string(classes.count) + " are known",
                    "take the data that fit the model, or correct classes.txt");
  }
  classes.count = numbers.value_or(0);
  return classes;
}

std::span<const float> PackedRecords::ValuesOf(size_t record) const {
  const uint64_t begin = record == 0 ? 0 : value_ends_[record - 1];
  return std::span(index_.values).subspan(begin, value_ends_[record] - begin);
}

void PackedRecords::Targets(int64_t index, std::span<float> targets) const {
  if (targets.empty()) return;
  const std::span<const float> values = ValuesOf(static_cast<size_t>(index));
  if (!HasTargets(index)) throw DataError("the record is damaged");
  if (kind_ == LabelKind::kNumbers) {
    std::ranges::copy(values, targets.begin());
    return;
  }
  std::ranges::fill(targets, 0.0F);
  for (const float value : values)
    targets[static_cast<size_t>(static_cast<int64_t>(value) - *classes_.label_offset)] = 1;
}

int64_t PackedRecords::Label(int64_t index) const {
  if (kind_ != LabelKind::kClass) return -1;
  const int32_t label = index_.records[static_cast<size_t>(index)].label;
  return label < 0 ? -1 : label - *classes_.label_offset;
}

std::vector<uint8_t> PackedRecords::Read(int64_t index) const {
  const IndexEntry& entry = index_.records[static_cast<size_t>(index)];
  if (entry.bytes > kMostRecordBytes) {
    throw DataError("it has " + std::to_string(entry.bytes) + " bytes, more than the limit of " +
                    std::to_string(kMostRecordBytes));
  }
  std::vector<uint8_t> image = format_.Image(files_.Get(entry.file)->ReadBytes(entry.offset, entry.bytes));
  // A file that was repaired with its time kept has an old index, without the label.
  if (entry.label < 0) throw DataError("it was damaged when the index was made: make that anew with dtrain_data index");
  return image;
}

RecordPlace PackedRecords::Place(int64_t index) const {
  const IndexEntry& entry = index_.records[static_cast<size_t>(index)];
  return {files_.path(entry.file), static_cast<int64_t>(entry.offset)};
}

}  // namespace dtrain::data
