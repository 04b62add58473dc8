// A head is a few layers after the encoder, which BertEncoder draws, runs and counts.
#include "models/bert_heads.h"

#include <ATen/ATen.h>

#include <limits>

#include "models/dropout.h"
#include "models/product.h"

namespace dtrain::models {
namespace {

// Returns x with more rows of one value.
at::Tensor WithRows(const at::Tensor& x, int64_t rows, double value) {
  std::vector<int64_t> padding(static_cast<size_t>(2 * x.dim()));
  padding.back() = rows;
  return rows == 0 ? x : at::constant_pad_nd(x, padding, value);
}

}  // namespace

at::Tensor WordScores(const at::Tensor& x_RH, const at::Tensor& words_VH, const at::Tensor& bias_V,
                      int64_t columns_multiple, const HalfWeight* half_words) {
  const int64_t columns = words_VH.size(0);
  const int64_t missing = (columns_multiple - columns % columns_multiple) % columns_multiple;
  at::Tensor words = half_words == nullptr ? at::Tensor() : half_words->Rows(columns + missing);
  if (!words.defined()) words = WithRows(words_VH, missing, 0);
  return Product(x_RH, words, WithRows(bias_V, missing, -std::numeric_limits<double>::infinity()));
}

BertForMaskedLM::BertForMaskedLM(const char* backbone, const EncoderOptions& options, const WordHeadNames& names)
    : BertEncoder(backbone, options) {
  head_dense_ = Linear(options.hidden_size, options.hidden_size, InitialWeights::kNotYet);
  head_norm_ = LayerNorm(options.hidden_size, options.layer_norm_epsilon);
  RegisterAt(*this, names.dense, head_dense_.ptr());
  RegisterAt(*this, names.norm, head_norm_.ptr());
  head_bias_ =
      GroupAt(*this, names.module).register_parameter("bias", at::zeros(options.vocab_size, DeviceOfNewWeights()));
  DrawWeights(*head_dense_);
}

at::Tensor BertForMaskedLM::ForWords(const at::Tensor& hidden_RH) {
  const TextKernels* kernels = KernelsFor(hidden_RH);
  if (kernels == nullptr) return head_norm_(at::gelu(head_dense_(hidden_RH)));
  const at::Tensor x_RH = BiasGelu(*kernels, at::linear(hidden_RH, head_dense_->GemmWeight()), head_dense_->bias);
  const ResidualNorm norm{
      .x_bias = {}, .weight = head_norm_->weight, .bias = head_norm_->bias, .epsilon = head_norm_->epsilon()};
  return NormalisedFirst(*kernels, x_RH, {}, norm, x_RH.scalar_type()).main;
}

at::Tensor BertForMaskedLM::Scores(const at::Tensor& hidden_RH, int64_t columns_multiple) {
  return WordScores(ForWords(hidden_RH), words_VH(), head_bias_, columns_multiple,
                    is_training() ? &half_words_ : nullptr);
}

ForwardCost BertForMaskedLM::Cost(int64_t tokens, int64_t length, int64_t rows) const {
  const int64_t hidden = options().hidden_size, words = options().vocab_size;
  ForwardCost cost = EncoderCost(tokens, length, rows);
  cost.multiply_adds += rows * (hidden * hidden + hidden * words);
  cost.activation_elements += rows * (4 * hidden + 2 * words);
  cost.moved_elements += static_cast<double>(rows * words) * 3;  // the scores are read, read again and written
  return cost;
}

BertClassifier::BertClassifier(const char* backbone, const EncoderOptions& options, const ClassifierForm& form,
                               int64_t outputs, double dropout)
    : BertEncoder(backbone, options), form_(form), dropout_(dropout) {
  if (form.dense != nullptr) {
    dense_ = Linear(options.hidden_size, options.hidden_size, InitialWeights::kNotYet);
    RegisterAt(*this, form.dense, dense_.ptr());
    DrawWeights(*dense_);
  }
  output_ = Linear(options.hidden_size, outputs, InitialWeights::kNotYet);
  RegisterAt(*this, form.output, output_.ptr());
  DrawWeights(*output_);
}

at::Tensor BertClassifier::Classify(const at::Tensor& hidden_RH) {
  const auto dropped = [this](const at::Tensor& x) { return Dropout(x, dropout_, is_training()); };
  if (form_.dense == nullptr) return output_(dropped(hidden_RH));
  const at::Tensor x_RH = form_.drops_input ? dropped(hidden_RH) : hidden_RH;
  return output_(dropped(form_.activation(dense_(x_RH))));
}

ForwardCost BertClassifier::Cost(int64_t tokens, int64_t length, int64_t rows) const {
  const int64_t hidden = options().hidden_size, layers = form_.dense == nullptr ? 0 : 1;
  if (layers == 0) rows = tokens;
  ForwardCost cost = EncoderCost(tokens, length, rows);
  cost.multiply_adds += rows * hidden * (layers * hidden + outputs());
  // The inputs of the layers, the activation, logits and softmax.
  cost.activation_elements += rows * ((1 + 2 * layers) * hidden + 2 * outputs());
  return cost;
}

}  // namespace dtrain::models
