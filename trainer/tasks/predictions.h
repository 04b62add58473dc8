// What tells people or programs what a model predicts: tables, files of logits, and features, the vectors that a model
// computes before its head, for searches, clusters and classifiers of other programs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/table_writer.h"
#include "data/outputs.h"
#include "data/record_source.h"
#include "trainer/config/config.h"
#include "trainer/distributed/communicator.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {

// Files of logits and features have this key in their metadata, and FILE.jsonl and FILE.npy begin with the others, so
// that they are known again and may be replaced.
inline constexpr char kPredictedBy[] = "predicted_by", kFirstRow[] = "{\"row\":0,", kNumpy[] = "\x93NUMPY";

// How the outputs of --mode=predict are known again: tables of images, of texts, of words and of entities, logits.
inline const std::vector<data::Mark> kPredictionMarks = {
    {"file,class_1,name_1,"},           {"{\"file\":", "\"top\":["},
    {"{\"file\":", "\"error\":"},       {"file,prediction", ",error"},
    {"{\"file\":", "\"prediction\":"},  {"text,prediction", ",error"},
    {"text,pair,prediction", ",error"}, {"{\"text\":", "\"prediction\":"},
    {"{\"text\":", "\"error\":"},       {"sentence,line,word,prediction"},
    {"{\"sentence\":", "\"word\":"},    {"line,entity_group,score"},
    {"{\"text\":", "\"entities\":"},    {"", kPredictedBy}};

// How files of --predictions are known again.
inline const std::vector<data::Mark> kSampleMarks = {{"file,", ",label,prediction,loss"}, {"{\"file\":", "\"loss\":"}};

// Of more classes only so many are listed for a sample, the likeliest first.
inline constexpr int64_t kGuesses = 5;

// What a model's outputs for a sample mean, for the files that tell people what was predicted.
struct Outcome {
  data::LabelKind labels = data::LabelKind::kClass;
  int64_t outputs = 1;          // classes or numbers
  double threshold = 0.5;       // of several labels: the probability from which one is decided for
  std::string separator = ",";  // between several labels or numbers in a cell

  bool has_classes() const { return labels != data::LabelKind::kNumbers; }
  // Whether there is a column for each output, beside the one with what was predicted.
  bool has_columns() const { return has_classes() || outputs > 1; }
  // The beginning of these columns' names, and the key of all of them in JSON.
  const char* column() const { return has_classes() ? "probability_" : "prediction_"; }
  const char* key() const { return has_classes() ? "probabilities" : "predictions"; }
  // Returns the names of the outputs. Classes may have none, but several labels and numbers are counted then.
  std::vector<std::string> Names(std::vector<std::string> known) const;
  // Returns a cell with the names of the labels whose value is at least `least`, or with the numbers.
  nlohmann::ordered_json Cell(const std::vector<double>& values, const std::vector<std::string>& names,
                              double least) const;
};

Outcome OutcomeOf(const config::Config& config, int64_t outputs);

// The error of a sample for which weights with NaN, or fp16 that overflows, have no prediction.
inline constexpr char kNotFinite[] = "the model's outputs are not finite";

// What was predicted for a sample, or why nothing was. One whose values are not finite is written with that error.
struct PredictedSample {
  std::vector<std::string> inputs;     // its cells in the first columns
  at::Tensor values_C = {};            // logits, numbers or features, float32 on the host; ignored with an `error`
  std::string error = {};              // why it could not be read; else empty
  std::vector<std::string> kept = {};  // the cells of columns that are passed on
};
using AppendSample = std::function<void(const PredictedSample& sample)>;
using SampleWriter = std::function<void(const AppendSample& append)>;  // is called once, and appends all in order

// Writes a table as its ending says (data::TableWriter), atomically. Throws StorageError.
void WriteTable(const std::string& path, bool byte_order_mark, const data::RowWriter& write,
                const data::WrittenRow& columns = {});

// The table of --mode=predict for people, FILE.csv or FILE.jsonl. A sample that could not be read has an error in place
// of a prediction. The classes of images, which may be many, are file,class_1,name_1,probability_1,…,class_5,name_5,
// probability_5,error, or {"file": …, "top": [{"class": 3, "name": "cat", "probability": 0.9}, …]}; names are empty or
// missing if they are unknown. Other tables have the prediction and a column for each output. Columns of the input that
// were kept come last, under their names there, or with input_ in front where the table has a column of that name.
class PredictionTable {
 public:
  // `inputs` are the names of the first columns: file, text, or text and pair; `names` those of the outputs.
  PredictionTable(const config::Config& config, std::vector<std::string> inputs, Outcome outcome,
                  std::vector<std::string> names, const std::vector<std::string>& kept = {});

  // Writes --output. Returns how many samples have outputs that are not finite. Throws StorageError.
  int64_t Write(const SampleWriter& write) const;

 private:
  void AddLikeliest(const PredictedSample& sample, data::WrittenRow& row) const;
  void AddPrediction(const PredictedSample& sample, data::WrittenRow& row) const;

  const config::RunConfig& run_;
  const std::vector<std::string> inputs_;
  const Outcome outcome_;
  const bool lists_likeliest_;
  const std::vector<std::string> names_;
  std::vector<std::string> kept_;  // the names of these columns here
};

// Why outputs, or a loss, may not be finite.
inline constexpr char kWhyNotFinite[] = "the weights hold NaN, or a --precision overflows, unlike fp32";

// Returns FILE.jsonl, which names the rows of --features=FILE.npy.
std::string RowNamesFile(const std::string& features);

// Writes `rows` × `columns` numbers to FILE.npy, or as tensor `features` to FILE.safetensors, and a line for each row
// to FILE.jsonl: its number, the sample's `inputs` and its error, whose row is NaN. The rows need no memory; nothing is
// written if `write` throws. Returns as PredictionTable::Write does. Throws StorageError.
int64_t WriteFeatures(const std::string& path, int64_t rows, int64_t columns, const std::vector<std::string>& inputs,
                      const SampleWriter& write);

// Whether --mode=predict writes a safetensors file for programs, whose input are tensors, too: --output names no table
// for people, and --features nothing.
bool WantsTensors(const config::Config& config);

// Prints the last line of stdout, such as predicted=2 unreadable=1 not_finite=3, or as JSON, and warns of samples whose
// outputs are not finite; if there are none, it says nothing of them.
void PrintCounts(const config::Config& config, int64_t predicted, std::optional<int64_t> unreadable,
                 int64_t not_finite);

// Writes the tensor `logits`, N×…, with the classes in its metadata; null: there are none. Warns of rows that are not
// finite. Throws StorageError.
void WriteLogits(const std::string& path, const at::Tensor& logits, const data::Classes* classes);

// Reads the weights of --mode=predict, and says so.
weights::TrainedWeights WeightsToPredict(const config::Config& config);

// What an evaluation found for each sample of a split, or each word that has a label, gathered from all ranks:
// --predictions. The ranks add up a table with a row for each, of which each has filled in its own, so that no rank
// writes a file of its own.
class SampleResults {
 public:
  // `rows` is the number of samples, or of words with labels. Of up to ten classes, of several labels and of
  // numbers all are kept, of more classes the five likeliest ones.
  SampleResults(int64_t rows, const Outcome& outcome, at::Device device);

  // Notes the results of a batch; called by the task that is evaluated (Task::ObserveOutputs).
  void Add(const SampleOutputs& outputs);

  // A collective. After it each rank has the results of all.
  void Gather(distributed::Communicator& communicator);

  // Writes the samples that were evaluated, in the order of the split, as CSV: file,[text,[pair,]]label,prediction,
  // loss,class_1,probability_1,…, the likeliest class first, or with several labels or numbers probability_NAME or
  // prediction_NAME for each. Or as JSON lines: {"file": …, "text": …, "pair": …, "label": "cat", "prediction": "dog",
  // "loss": 2.1, "probabilities": {"dog": 0.9, …}}. A single number has numbers as label and prediction, and nothing
  // else. A file is a path, with " at byte N" in a shard; words have columns `sentence` and `word`. Classes without a
  // name are numbers. Throws StorageError.
  void Write(const std::string& path, const DataSplit& split, const std::vector<std::string>& names,
             bool byte_order_mark) const;

 private:
  const Outcome outcome_;
  int64_t guesses_;  // of each sample
  // float64, samples or words × (evaluated, class, loss, then class and probability of each guess; of several classes
  // or of numbers what it should be, 1 or 0 or a number, and the probability or the number that is predicted)
  at::Tensor table_;
};

}  // namespace dtrain::tasks
