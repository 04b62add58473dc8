#include "data/formats/record_scan.h"

#include <algorithm>
#include <limits>

namespace dtrain::data {
namespace {

std::string At(const std::string& path, uint64_t offset) { return path + " at byte " + std::to_string(offset); }

class Scanner {
 public:
  Scanner(const RecordFormat& format, const ReadableBytes& file, const std::string& path,
          std::span<const IndexEntry> known)
      : format_(format), file_(file), path_(path), known_(known) {}

  std::vector<IndexEntry> Run() && {
    uint64_t offset = 0;
    while (offset < file_.size()) {
      try {
        const auto record = format_.Scan(file_, offset);
        if (record) {
          Add(*record);
          offset = record->end;
          continue;
        }
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
                      "is it a " + format_.name() + " file?");
    }
    return std::move(records_);
  }

 private:
  using Known = std::span<const IndexEntry>::iterator;

  // Returns the first known record that begins at or behind `offset`.
  Known KnownFrom(uint64_t offset) const {
    return std::lower_bound(known_.begin(), known_.end(), offset,
                            [](const IndexEntry& entry, uint64_t at) { return entry.offset < at; });
  }

  void Add(const ScannedRecord& record) {
    if (record.label < 0 || record.label > std::numeric_limits<int32_t>::max()) {
      throw DataError("label " + std::to_string(record.label) + " is not a class", "labels count from 0, or from 1");
    }
    records_.push_back({record.begin, record.end - record.begin, 0, static_cast<int32_t>(record.label)});
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
    records_.push_back({offset, end - offset, 0, is_known ? here->label : -1});
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
  std::vector<IndexEntry> records_;
  size_t intact_ = 0;
  std::string first_damage_;
};

}  // namespace

std::vector<IndexEntry> ScanRecords(const RecordFormat& format, const ReadableBytes& file, const std::string& path,
                                    std::span<const IndexEntry> known) {
  return Scanner(format, file, path, known).Run();
}

}  // namespace dtrain::data
