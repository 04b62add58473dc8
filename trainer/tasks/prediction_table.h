// The table that --mode=predict writes for texts, and for images with several labels or numbers: CSV or JSON lines.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "data/outputs.h"
#include "trainer/tasks/outcome.h"

namespace dtrain::tasks {

// How tables of images are known again; those of texts: kSentenceMarks (predict_sentences.h).
inline const std::vector<data::Mark> kImageTableMarks = {{"file,prediction"}, {"{\"file\":", "\"prediction\":"}};

// A row that could not be read has an error in place of a prediction; columns of the input that were kept come last,
// under their names there, or with input_ in front where the table has a column of that name.
class PredictionTable {
 public:
  // `inputs` are the names of the first columns: file, text, or text and pair; `names` those of the outputs.
  PredictionTable(bool is_csv, std::vector<std::string> inputs, Outcome outcome, std::vector<std::string> names,
                  const std::vector<std::string>& kept = {});

  // Both return whole lines with their line feeds; the header is empty for JSON lines.
  std::string Header() const;
  // `outputs_C` are logits or numbers, float32 on the host; they are not looked at if there is an `error`.
  std::string Line(const std::vector<std::string>& inputs, const at::Tensor& outputs_C, const std::string& error,
                   const std::vector<std::string>& kept = {}) const;

 private:
  // `number` are probabilities or numbers.
  std::string PredictionOf(const float* number) const;

  const bool is_csv_;
  const std::vector<std::string> inputs_;
  const Outcome outcome_;
  const std::vector<std::string> names_;
  std::vector<std::string> kept_;  // the names of these columns here
};

}  // namespace dtrain::tasks
