// BERT, Devlin et al. 2018 (arXiv:1810.04805), and DistilBERT, Sanh et al. 2019 (arXiv:1910.01108): half the layers,
// neither token types nor pooler. Parameter names and logits are those of transformers' classes, except that the
// decoder of the head that guesses words is the word embedding, with the bias that is named below.
#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>

#include "models/bert_family.h"

namespace dtrain::models {
namespace {

// The defaults of transformers' BertConfig, which published models have, too.
EncoderOptions Base() {
  EncoderOptions options{
      {.vocab_size = 30'522, .padding_id = 0, .first_position = 0, .longest_sequence = 512, .token_types = 2}};
  options.layer_norm_epsilon = 1e-12;
  options.begin_id = options.end_id = std::nullopt;
  return options;
}

EncoderOptions DistilBase() {
  EncoderOptions options = Base();
  options.layers = 6;
  options.token_types = 0;
  options.drops_attention_output = false;
  options.names = {.layers = "transformer.layer",
                   .query = "attention.q_lin",
                   .key = "attention.k_lin",
                   .value = "attention.v_lin",
                   .attention_output = "attention.out_lin",
                   .attention_norm = "sa_layer_norm",
                   .intermediate = "ffn.lin1",
                   .output = "ffn.lin2",
                   .output_norm = "output_layer_norm"};
  return options;
}

}  // namespace

Family BertFamily() {
  static const BertKind kind = {
      .name = "BERT",
      .model = "bert",
      .type = "bert",
      .classes = "Bert",
      .backbone = "bert",
      .defaults = Base(),
      .words = {"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"},
      .decoder = "cls.predictions.decoder",
      .classifier = {.output = "classifier", .dense = "bert.pooler.dense", .activation = at::tanh},
      .heads = {{"cls.predictions"}, {"classifier", "classifier.weight", {"bert.pooler"}}},
      // What multilingual models say of the pooler changes nothing.
      .more_fields = R"({"directionality": null, "pooler_fc_size": null, "pooler_num_attention_heads": null,
                         "pooler_num_fc_layers": null, "pooler_size_per_head": null, "pooler_type": null})",
      .shapes = {{"tiny", Sized(Base(), 128, 2)}, {"base", Base()}, {"large", Sized(Base(), 1024, 24)}}};
  Family family = FamilyOfKind(kind, [](const WeightShapes& weights) {
    return HaveEncoder(weights, "bert") ||  // published RoBERTas have one type
           (RowsNamed(weights, "token_type_embeddings.weight") > 1 && HaveBareEncoder(weights, "encoder.layer."));
  });
  return family;
}

Family DistilBertFamily() {
  static const BertKind kind = {
      .name = "DistilBERT",
      .model = "distilbert",
      .type = "distilbert",
      .classes = "DistilBert",
      .backbone = "distilbert",
      .defaults = DistilBase(),
      .fields = {.hidden_size = "dim",
                 .layers = "n_layers",
                 .heads = "n_heads",
                 .intermediate_size = "hidden_dim",
                 .activation = "activation",
                 .dropout = "dropout",
                 .attention_dropout = "attention_dropout",
                 .layer_norm_epsilon = nullptr,
                 .classifier_dropout = kSequenceDropout},
      .words = {"vocab_transform", "vocab_layer_norm", "vocab_projector"},
      .decoder = "vocab_projector",
      .classifier = {.output = "classifier", .dense = "pre_classifier", .activation = at::relu},
      .heads = {{"vocab_transform", "", {"vocab_layer_norm", "vocab_projector"}},
                {"classifier", "classifier.weight", {"pre_classifier"}}},
      .classifier_dropout = 0.2,
      .more_fields = R"({"sinusoidal_pos_embds": [false, true], "qa_dropout": null, "tie_weights_": null})",
      .shapes = {{"base", DistilBase()}}};
  Family family = FamilyOfKind(kind, [](const WeightShapes& weights) {
    return HaveEncoder(weights, "distilbert") || HaveBareEncoder(weights, "transformer.layer.");
  });
  return family;
}

}  // namespace dtrain::models
