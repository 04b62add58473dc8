// Records that contain their own index, and the requests for batches that the loader's tests use.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/pipeline/loader.h"
#include "data/pipeline/sampler.h"

namespace dtrain::data {

// Records of eight bytes, their own index. Tests make some of them bad in one of three ways.
class NumberedSource : public RecordSource {
 public:
  explicit NumberedSource(int64_t size) : size_(size) {}
  std::set<int64_t> unreadable, undecodable, broken;

  int64_t size() const override { return size_; }
  int64_t Label(int64_t index) const override { return index % 10; }
  std::vector<uint8_t> Read(int64_t index) const override {
    ++reads_begun;
    if (unreadable.contains(index)) throw DataError("I/O error");
    if (broken.contains(index)) throw std::runtime_error("a bug");
    std::vector<uint8_t> bytes(undecodable.contains(index) ? 3 : 8);
    std::memcpy(bytes.data(), &index, bytes.size());
    return bytes;
  }
  RecordPlace Place(int64_t index) const override { return {"record-" + std::to_string(index)}; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::string fingerprint() const override { return ""; }

  mutable std::atomic<int64_t> reads_begun{0};

 private:
  int64_t size_;
  std::vector<std::string> class_names_;
};

class NumberDecoder : public SampleDecoder {
 public:
  std::vector<Field> fields(int64_t /*size*/) const override {
    return {{.name = "value", .type = ElementType::kInt64, .row_shape = {}},
            {.name = "epoch", .type = ElementType::kInt32, .row_shape = {2}}};
  }
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override {
    if (bytes.size() != 8) throw DataError("truncated");
    std::memcpy(rows[0].data(), bytes.data(), 8);
    const int32_t epochs[] = {static_cast<int32_t>(sample.epoch), -static_cast<int32_t>(sample.epoch)};
    std::memcpy(rows[1].data(), epochs, 8);
  }
};

inline std::vector<int64_t> Values(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

// Provides the first `steps` training batches of a shuffled set.
inline BatchProvider Training(int64_t size, int64_t batch, int64_t steps) {
  auto sampler = std::make_shared<TrainSampler>(size, batch, 7, Shuffle::kGlobal, LastBatch::kStream);
  return [=](int64_t number) { return number < steps ? std::optional(sampler->GlobalBatch(number)) : std::nullopt; };
}

inline BatchProvider Evaluation(int64_t size, int64_t batch) {
  auto batches = EvaluationBatches(size, batch, 0, 1);
  return [=](int64_t number) {
    return number < static_cast<int64_t>(batches.size()) ? std::optional(batches[static_cast<size_t>(number)])
                                                         : std::nullopt;
  };
}

inline std::vector<int64_t> AllIndices(Loader& loader) {
  std::vector<int64_t> all;
  while (auto batch = loader.Next()) {
    EXPECT_EQ(Values((*batch)["value"]), Values((*batch)["index"]));
    for (const int64_t index : Values((*batch)["index"])) all.push_back(index);
  }
  return all;
}

}  // namespace dtrain::data
