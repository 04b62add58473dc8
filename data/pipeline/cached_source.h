// A set of records that is read from storage once and then kept in the memory of the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/pipeline/node_cache.h"
#include "data/record_source.h"

namespace dtrain::data {

class CachedSource : public RecordSource {
 public:
  // Record i of `source` is record first + i of the cache. `note` is called from any thread, once per machine, if not
  // all records fit; those that do not fit are read from storage every time.
  CachedSource(std::unique_ptr<RecordSource> source, std::shared_ptr<NodeCache> cache, int64_t first,
               std::function<void(const std::string&)> note)
      : source_(std::move(source)), cache_(std::move(cache)), first_(first), note_(std::move(note)) {}

  // A record that cannot be read is not kept, so the next call tries again.
  std::vector<uint8_t> Read(int64_t index) const override;

  int64_t size() const override { return source_->size(); }
  RecordKind kind() const override { return source_->kind(); }
  RawRows rows() const override { return source_->rows(); }
  int64_t Label(int64_t index) const override { return source_->Label(index); }
  RecordPlace Place(int64_t index) const override { return source_->Place(index); }
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  int64_t num_classes() const override { return source_->num_classes(); }
  std::optional<int64_t> label_offset() const override { return source_->label_offset(); }
  IgnoredFiles ignored() const override { return source_->ignored(); }
  std::string fingerprint() const override { return source_->fingerprint(); }

 private:
  const std::unique_ptr<RecordSource> source_;
  const std::shared_ptr<NodeCache> cache_;
  const int64_t first_;
  const std::function<void(const std::string&)> note_;
};

}  // namespace dtrain::data
