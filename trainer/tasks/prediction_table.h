// The table that --mode=predict writes for texts, and for images with several labels or numbers: CSV or JSON lines.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/outputs.h"
#include "data/record_source.h"
#include "trainer/config/config.h"

namespace dtrain::tasks {

// What a model's outputs for a sample mean, for the files that tell people what was predicted.
struct Outcome {
  data::LabelKind labels = data::LabelKind::kClass;
  int64_t outputs = 1;          // classes or numbers
  double threshold = 0.5;       // of several labels: the probability from which one is decided for
  std::string separator = ",";  // between several labels or numbers in a cell

  bool has_classes() const { return labels != data::LabelKind::kNumbers; }
  // Whether there is a column for each output, beside the one with what was predicted.
  bool has_columns() const { return has_classes() || outputs > 1; }
  // The beginning of these columns' names.
  const char* column() const { return has_classes() ? "probability_" : "prediction_"; }
  // Returns the names of the outputs. Classes may have none, but several labels and numbers are counted then.
  std::vector<std::string> Names(std::vector<std::string> known) const;
  // Returns a cell with the names of the labels whose value is at least `least`, or with the numbers.
  std::string Cell(const std::vector<double>& values, const std::vector<std::string>& names, double least) const;
};

Outcome OutcomeOf(const config::Config& config, int64_t outputs);

// How tables of images are known again; those of texts: kSentenceMarks (predict_sentences.h).
inline const std::vector<data::Mark> kImageTableMarks = {{"file,prediction", ",error"},
                                                         {"{\"file\":", "\"prediction\":"}};

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
  const bool is_csv_;
  const std::vector<std::string> inputs_;
  const Outcome outcome_;
  const std::vector<std::string> names_;
  std::vector<std::string> kept_;  // the names of these columns here
};

}  // namespace dtrain::tasks
