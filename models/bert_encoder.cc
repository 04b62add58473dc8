// Tokens are rows of one S×H matrix everywhere; only attention knows of sequences. A head is a few layers after the
// encoder, which BertEncoder draws, runs and counts.
#include "models/bert_encoder.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <limits>
#include <string>

#include "models/activation_checkpoint.h"
#include "models/cpu_operations.h"

namespace dtrain::models {
namespace {

// Those of Vaswani et al. 2017 (arXiv:1706.03762), P×H: pairs of columns with the same angle.
void FillWithSinusoids(const at::Tensor& positions_PH) {
  const auto numbers = [type = positions_PH.options().dtype(at::kDouble)](int64_t end) {
    return at::arange(end, type);
  };
  const at::Tensor column = numbers(positions_PH.size(1)), is_odd = column.remainder(2);
  const at::Tensor exponents = (column - is_odd) / static_cast<double>(positions_PH.size(1));
  const at::Tensor angles = at::outer(numbers(positions_PH.size(0)), at::pow(10'000, -exponents));
  positions_PH.copy_(at::where(is_odd.eq(0), angles.sin(), angles.cos()));
}

// Returns x with more rows of one value.
at::Tensor WithRows(const at::Tensor& x, int64_t rows, double value) {
  std::vector<int64_t> padding(static_cast<size_t>(2 * x.dim()));
  padding.back() = rows;
  return rows == 0 ? x : at::constant_pad_nd(x, padding, value);
}

}  // namespace

BertEmbeddingsImpl::BertEmbeddingsImpl(const EncoderOptions& options) : dropout_(options.dropout) {
  const int64_t hidden = options.hidden_size;
  word_embeddings = register_module(
      "word_embeddings", Embedding(options.vocab_size, hidden, options.unlearned_word.value_or(options.padding_id)));
  position_embeddings =
      register_module("position_embeddings", Embedding(options.positions(), hidden, options.first_position - 1));
  if (options.token_types > 0) {
    token_type_embeddings = register_module("token_type_embeddings", Embedding(options.token_types, hidden));
  }
  norm_ = register_module("LayerNorm", LayerNorm(hidden, options.layer_norm_epsilon));
}

ResidualPair BertEmbeddingsImpl::forward(const Sequences& sequences) {
  const at::Tensor& words_VH = word_embeddings->weight;
  const bool has_types = !token_type_embeddings.is_empty() && sequences.token_types.defined();
  // Without token types, all are of the first.
  const at::Tensor type_H =
      token_type_embeddings.is_empty() || has_types ? at::Tensor() : token_type_embeddings->weight[0];
  const at::Tensor words_SH = word_embeddings(sequences.ids);
  at::Tensor positions_SH = position_embeddings(sequences.positions);
  const bool has_kernels = kernels_ != nullptr && HasTextKernels(words_VH, words_VH.size(1));
  if (has_kernels && is_training() && sequences.ids.numel() > 0) {
    if (has_types) positions_SH = positions_SH + token_type_embeddings(sequences.token_types);
    return NormalisedFirst(*kernels_, words_SH, positions_SH,
                           {.x_bias = type_H,
                            .weight = norm_->weight,
                            .bias = norm_->bias,
                            .epsilon = norm_->epsilon(),
                            .dropout = dropout_},
                           GemmType(words_VH));
  }
  at::Tensor x_SH = words_SH;
  if (has_types) x_SH = x_SH + token_type_embeddings(sequences.token_types);
  if (type_H.defined()) x_SH = x_SH + type_H;
  const at::Tensor y = Dropout(norm_(x_SH + positions_SH), dropout_, is_training());
  return {y, y};
}

BertLayerImpl::BertLayerImpl(const EncoderOptions& options)
    : heads_(options.heads),
      dropout_(options.dropout),
      attention_dropout_(options.attention_dropout),
      attention_output_dropout_(options.drops_attention_output ? options.dropout : 0) {
  const int64_t hidden = options.hidden_size, inner = options.intermediate_size;
  const EncoderNames& names = options.names;
  const auto dense = [this](Linear& layer, const char* name, int64_t in, int64_t out) {
    layer = Linear(in, out, InitialWeights::kNotYet);
    RegisterAt(*this, name, layer.ptr());
  };
  const auto norm = [&](LayerNorm& layer, const char* name) {
    layer = LayerNorm(hidden, options.layer_norm_epsilon);
    RegisterAt(*this, name, layer.ptr());
  };
  dense(query_, names.query, hidden, hidden);
  dense(key_, names.key, hidden, hidden);
  dense(value_, names.value, hidden, hidden);
  dense(attention_output_, names.attention_output, hidden, hidden);
  norm(attention_norm_, names.attention_norm);
  dense(intermediate_, names.intermediate, hidden, inner);
  dense(output_, names.output, inner, hidden);
  norm(output_norm_, names.output_norm);
}

ResidualPair BertLayerImpl::forward(const ResidualPair& x_SH, const Sequences& sequences, const at::Tensor& rows) {
  const auto [q_SH, k_SH, v_SH] = Products(x_SH.main);
  const at::Tensor context = Attend(q_SH, k_SH, v_SH, heads_, sequences, is_training() ? attention_dropout_ : 0.0);
  const ResidualPair y_RH = attention_output_->AddedTo(
      RowsOf(x_SH.shortcut, rows), RowsOf(context, rows),
      {.dropout = attention_output_dropout_, .norm = attention_norm_.get(), .goes_on_normalised = true});
  const at::Tensor inner = intermediate_->ThroughUnit(y_RH.main, LinearUnit::kGelu);
  return output_->AddedTo(y_RH.shortcut, inner,
                          {.dropout = dropout_, .norm = output_norm_.get(), .goes_on_normalised = true});
}

std::array<at::Tensor, 3> BertLayerImpl::Products(const at::Tensor& x_SH) {
  const TextKernels* const kernels = query_->KernelsFor(x_SH);
  if (kernels == nullptr) {  // in this order, in which gradients have been summed since the first version
    const at::Tensor v_SH = value_(x_SH), k_SH = key_(x_SH), q_SH = query_(x_SH);
    return {q_SH, k_SH, v_SH};
  }
  const at::Tensor weights = half_weights_.Rows();
  return FusedQkv(*kernels, x_SH, weights.defined() ? weights : at::cat(WeightsOfThree()),
                  {query_->bias, key_->bias, value_->bias});
}

BertEncoder::BertEncoder(const char* name, const EncoderOptions& options) : TextModel(options), options_(options) {
  embeddings_ = BertEmbeddings(options);
  const auto layers = Group({});
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.emplace_back(options);
    layers->register_module(std::to_string(i), layers_.back());
  }
  const auto encoder = register_module(name, Group({{"embeddings", embeddings_.ptr()}}));
  RegisterAt(*encoder, options.names.layers, layers);
  DrawWeights(*this);
  at::NoGradGuard no_grad;
  const at::Tensor& positions_PH = embeddings_->position_embeddings->weight;
  if (options.sinusoidal_positions && !positions_PH.is_meta()) FillWithSinusoids(positions_PH);
  embeddings_->word_embeddings->weight[options.padding_id].zero_();
  if (options.first_position > 0) embeddings_->position_embeddings->weight[options.first_position - 1].zero_();
  // A row that all tokens share tells nothing apart. It begins as in published RoBERTas, and stays so if it is frozen.
  if (options.token_types == 1) embeddings_->token_type_embeddings->weight.zero_();
}

void BertEncoder::DrawWeights(torch::nn::Module& part) const {
  for (auto& item : part.named_parameters()) {
    if (item.value().dim() > 1) torch::nn::init::normal_(item.value(), 0, options_.initializer_range);
  }
}

at::Tensor BertEncoder::Encode(const Sequences& sequences, const at::Tensor& rows) {
  ResidualPair x = embeddings_(sequences);
  for (BertLayer& layer : layers_) {
    const at::Tensor of_layer = layer.get() == layers_.back().get() ? rows : at::Tensor();
    if (options_.checkpoint_activations && is_training()) {
      const Part run = [layer, sequences, of_layer](const at::Tensor& x_SH) mutable {
        return layer(ResidualPair{x_SH, x_SH}, sequences, of_layer).main;
      };
      const at::Tensor y = Checkpointed(run, x.main, layer->parameters());
      x = {y, y};
    } else {
      x = layer(x, sequences, of_layer);
    }
  }
  return x.main;
}

ForwardCost BertEncoder::EncoderCost(int64_t tokens, int64_t length, int64_t rows) const {
  const int64_t hidden = options_.hidden_size, inner = options_.intermediate_size, layers = options_.layers;
  // A layer until its attention is done, and after that.
  const int64_t first_products = 3 * hidden * hidden + 2 * length * hidden;
  const int64_t last_products = hidden * hidden + 2 * hidden * inner;
  const int64_t last_tokens = tokens * (layers - 1) + rows;
  // The inputs of dense layers, normalisations, attention and GELU. Attention's own weights are computed again.
  const int64_t first_kept = 5 * hidden, last_kept = 4 * hidden + 2 * inner;
  const int64_t kept = tokens * layers * first_kept + last_tokens * last_kept;
  const int64_t checkpointed = tokens * layers * hidden + tokens * (first_kept + last_kept);
  // The gradients of three products' biases, which read theirs. Two passes of dropout, residual and LayerNorm (forward
  // they read two and write the sum and the result; backward they read two gradients and the sum and write one), one of
  // GELU (forward read, write; backward read two, write one), and the gradients of three more biases.
  const int64_t first_moved = 3 * hidden, last_moved = 2 * (4 + 4) * hidden + (2 + 3) * inner + 2 * hidden + inner;
  return {.multiply_adds = tokens * layers * first_products + last_tokens * last_products,
          .activation_elements = options_.checkpoint_activations ? checkpointed : kept,
          .moved_elements = static_cast<double>(tokens * layers * first_moved + last_tokens * last_moved)};
}

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
  return head_norm_(head_dense_->ThroughUnit(hidden_RH, LinearUnit::kGelu));
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
