// Records in shards (record_format.h) as a RecordSource, read through an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/record_format.h"
#include "data/formats/record_index.h"
#include "data/record_source.h"
#include "data/storage.h"

namespace dtrain::data {

// Scans record files for their index. Damaged records are indexed, too, in their places, so that one bad length neither
// loses the rest of a file nor changes the numbers of the records behind it. Returns the records of one file, with
// IndexEntry::file left 0. `known` is what an earlier index (or an .idx) says of the same file, in file order; after a
// damaged record the next one is first looked for there. A damaged record becomes an entry with label −1 (or the known
// label) that ends where the next intact record begins. Throws DataError if an intact record lacks image or label, or
// if no record of the file is intact.
// Labels of another kind than a class are appended to `values`.
std::vector<IndexEntry> ScanRecords(const RecordFormat& format, const ReadableBytes& file, const std::string& path,
                                    std::span<const IndexEntry> known, LabelKind kind = LabelKind::kClass,
                                    std::vector<float>* values = nullptr);

class OpenFiles {
 public:
  explicit OpenFiles(std::vector<std::string> paths, size_t most_open = MostOpen())
      : most_open_(most_open), paths_(std::move(paths)), files_(paths_.size()) {}

  // Returns the file, which is opened if it is not open. If too many files are open, the one opened first is closed as
  // soon as its last reader releases it. Throws DataError. Safe to call from many threads.
  std::shared_ptr<const RandomAccessFile> Get(size_t number) {
    std::shared_ptr<const RandomAccessFile> evicted;  // is closed behind the lock, for closing may take long, too
    std::unique_lock lock(mutex_);
    if (files_[number]) return files_[number];
    lock.unlock();  // on a network file system, opening takes longer than reading
    auto file = std::make_shared<const RandomAccessFile>(paths_[number]);
    lock.lock();
    if (files_[number]) return files_[number];  // another thread was faster
    if (order_.size() >= most_open_) {
      evicted = std::move(files_[order_.front()]);
      order_.pop_front();
    }
    order_.push_back(number);
    return files_[number] = std::move(file);
  }

  const std::string& path(size_t number) const { return paths_[number]; }

 private:
  // Returns a sixteenth of what the process may open, since each split has its own files; at least a quarter of the
  // usual limit.
  static size_t MostOpen();

  const size_t most_open_;
  const std::vector<std::string> paths_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const RandomAccessFile>> files_;
  std::deque<size_t> order_;  // numbers of the open files, in the order of opening
};

// Returns the kept index of these files if none has changed since; else scans them. For a file of unchanged size the
// scan uses what the old index says of it. Throws DataError if a file has no intact record or cannot be read.
RecordIndex IndexRecordFiles(const RecordFormat& format, const std::string& data_dir, const RecordFiles& files,
                             const KeptIndex& kept, LabelKind kind = LabelKind::kClass);

class PackedRecords : public RecordSource {
 public:
  // `user_offset` is the label of the first class if the user gave it (labels.h). `classes` is what is known of
  // the set; its names default to those of the index, which is of labels of this kind. Throws DataError if there is no
  // record, or if labels or names do not fit. `format` must outlive this object.
  PackedRecords(const RecordFormat& format, const std::string& data_dir, RecordIndex index,
                std::optional<int64_t> user_offset, Classes classes = {}, LabelKind kind = LabelKind::kClass);

  int64_t size() const override { return static_cast<int64_t>(index_.records.size()); }
  int64_t Label(int64_t index) const override;
  int64_t num_targets() const override { return kind_ == LabelKind::kClass ? 0 : classes_.count; }
  // Throws DataError for a damaged record.
  void Targets(int64_t index, std::span<float> targets) const override;
  bool HasTargets(int64_t index) const override { return index_.records[static_cast<size_t>(index)].label >= 0; }
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return classes_.names; }
  // The highest label + 1 if neither a number nor names are known.
  int64_t num_classes() const override { return classes_.count; }
  std::optional<int64_t> label_offset() const override { return classes_.label_offset; }
  std::string fingerprint() const override { return index_.fingerprint; }

 private:
  Classes ClassesOfRecords(std::optional<int64_t> user_offset, Classes classes) const;
  Classes NumbersOfRecords(Classes classes) const;
  std::span<const float> ValuesOf(size_t record) const;

  const RecordFormat& format_;
  std::string data_dir_;
  RecordIndex index_;
  const LabelKind kind_;
  std::vector<uint64_t> value_ends_;  // by record, of its values in the index; none for kClass
  Classes classes_;
  mutable OpenFiles files_;
};

}  // namespace dtrain::data
