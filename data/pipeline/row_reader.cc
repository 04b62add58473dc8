#include "data/pipeline/row_reader.h"

#include "data/error.h"
#include "data/random.h"

namespace dtrain::data {
namespace {

constexpr int kReplacementTries = 16;

}  // namespace

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
      decoder_.Decode(encoded.bytes, sample, batch.RowOf(row));
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
