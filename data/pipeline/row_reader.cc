#include "data/pipeline/row_reader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/random.h"

namespace dtrain::data {
namespace {

at::ScalarType TypeOf(ElementType type) {
  switch (type) {
    case ElementType::kUInt8:
      return at::kByte;
    case ElementType::kInt32:
      return at::kInt;
    case ElementType::kInt64:
      return at::kLong;
    case ElementType::kFloat32:
      return at::kFloat;
  }
  throw std::logic_error("unknown element type");
}

constexpr int kReplacementTries = 16;

}  // namespace

OpenBatch::OpenBatch(Batch batch, std::vector<SampleRef> samples, const std::vector<Field>& fields, bool pinned)
    : batch_(std::move(batch)), samples_(std::move(samples)), left_out_(samples_.size(), 0), unfinished_(rows()) {
  const auto empty = [pinned](const std::vector<int64_t>& shape, at::ScalarType type, bool on_host) {
    return at::empty(shape, at::TensorOptions(type).pinned_memory(pinned && !on_host));
  };
  for (const Field& field : fields) {
    std::vector<int64_t> shape = {rows()};
    shape.insert(shape.end(), field.row_shape.begin(), field.row_shape.end());
    const at::Tensor tensor = empty(shape, TypeOf(field.type), field.on_host);
    int64_t row_bytes = static_cast<int64_t>(tensor.element_size());
    for (const int64_t dimension : field.row_shape) row_bytes *= dimension;
    bases_.push_back(static_cast<std::byte*>(tensor.data_ptr()));
    row_bytes_.push_back(row_bytes);
    if (field.name == "index") throw std::logic_error("a decoder's field is called index, as the loader's own");
    if (!(field.on_host ? batch_.on_host : batch_.tensors).emplace(field.name, tensor).second) {
      throw std::logic_error("two fields are called " + field.name);
    }
  }
  index_ = (batch_.on_host["index"] = empty({rows()}, at::kLong, /*on_host=*/true)).mutable_data_ptr<int64_t>();
  if (batch_.tensors.contains("labels")) return;
  labels_ = (batch_.tensors["labels"] = empty({rows()}, at::kLong, /*on_host=*/false)).mutable_data_ptr<int64_t>();
}

std::vector<std::span<std::byte>> OpenBatch::RowOf(int64_t row) {
  std::vector<std::span<std::byte>> spans;
  spans.reserve(bases_.size());
  for (size_t i = 0; i < bases_.size(); ++i) {
    spans.emplace_back(bases_[i] + row * row_bytes_[i], static_cast<size_t>(row_bytes_[i]));
  }
  return spans;
}

void OpenBatch::SetLabel(int64_t row, int64_t index, int64_t label) {
  index_[row] = index;
  if (labels_ != nullptr) labels_[row] = label;
}

Batch OpenBatch::Take() {
  Batch batch = std::move(batch_);
  std::vector<int64_t> kept;
  for (size_t row = 0; row < left_out_.size(); ++row) {
    if (!left_out_[row]) kept.push_back(static_cast<int64_t>(row));
  }
  if (kept.size() < left_out_.size()) {
    const at::Tensor rows = at::tensor(kept, at::kLong);
    for (auto* tensors : {&batch.tensors, &batch.on_host}) {
      for (auto& [name, tensor] : *tensors) {
        const bool pinned = tensor.is_pinned();
        tensor = tensor.index_select(0, rows);
        if (pinned) tensor = tensor.pin_memory();
      }
    }
  }
  return batch;
}

std::vector<Field> RowReader::fields(int64_t size) const {
  std::vector<Field> fields = decoder_.fields(size);
  const int64_t targets = source_.num_targets();
  if (targets > 0) fields.push_back({.name = "targets", .type = ElementType::kFloat32, .row_shape = {targets}});
  return fields;
}

EncodedSample RowReader::Read(int64_t index) const {
  try {
    return {source_.Read(index), ""};
  } catch (const DataError& error) {
    return {{}, error.what()};
  }
}

void RowReader::Fill(OpenBatch& batch, int64_t row, const EncodedSample& encoded) const {
  const SampleRef& wanted = batch.sample(row);
  if (Decode(batch, row, wanted, encoded)) return;
  if (policy_ == BadRecordPolicy::kLeaveOut) return batch.LeaveOut(row);
  // The draw is keyed by the sample alone, so every rank, thread count and resumed run chooses the same replacement.
  RandomGenerator random(
      {.seed = seed_, .epoch = wanted.epoch, .sample = wanted.index, .stream = RandomStream::kReplacement});
  for (int attempt = 0; attempt < kReplacementTries; ++attempt) {
    SampleRef other = wanted;
    other.index = random.Below(source_.size());
    if (Decode(batch, row, other, Read(other.index))) return;
  }
  throw DataError("no readable sample to replace " + source_.Location(wanted.index) + " with in " +
                      std::to_string(kReplacementTries) + " tries",
                  "most of the data set seems unreadable: run dtrain_data verify");
}

// Writes one row; returns false if the record is bad, after adding it to the quarantine.
bool RowReader::Decode(OpenBatch& batch, int64_t row, const SampleRef& sample, const EncodedSample& encoded) const {
  std::string problem = encoded.problem;
  if (problem.empty()) {
    try {
      std::vector<std::span<std::byte>> spans = batch.RowOf(row);
      if (const auto targets = static_cast<size_t>(source_.num_targets()); targets > 0) {
        source_.Targets(sample.index, {reinterpret_cast<float*>(spans.back().data()), targets});
        spans.pop_back();
      }
      decoder_.Decode(encoded.bytes, sample, spans);
      batch.SetLabel(row, sample.index, source_.Label(sample.index));
      return true;
    } catch (const DataError& error) {
      problem = error.what();
    }
  }
  const RecordPlace place = source_.Place(sample.index);
  if (quarantine_ == nullptr) throw DataError(ToText(place) + ": " + problem);
  quarantine_->Add(sample.index, place, problem);
  return false;
}

}  // namespace dtrain::data
