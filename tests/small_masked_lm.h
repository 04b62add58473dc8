// A masked language model of two small layers, and rows of tokens for it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/pipeline/batch.h"
#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "tests/roberta.h"
#include "trainer/tasks/masked_lm.h"

namespace dtrain::tasks {

struct SmallMaskedLm {
  int64_t words, longest, width;  // width: of the hidden layers, a multiple of the two heads
  double dropout = 0;

  MaskedLmTask Task(at::Device device, bool unpad, const std::string& precision = "fp32") const {
    config::Config config;
    config.text.tokens_per_sample = longest;
    config.text.unpad = unpad;
    config.precision.name = precision;
    const models::EncoderOptions options{{.vocab_size = words,
                                          .hidden_size = width,
                                          .longest_sequence = longest,
                                          .dropout = dropout,
                                          .attention_dropout = dropout},
                                         /*layers=*/2,
                                         /*heads=*/2,
                                         /*intermediate_size=*/2 * width};
    at::manual_seed(3);
    auto model = std::make_shared<models::RobertaForMaskedLM>(options);
    model->to(device);
    return {std::move(model), config, device};
  }

  // Makes rows of these lengths. A third of the tokens is to be predicted.
  data::Batch Rows(const std::vector<int64_t>& lengths) const {
    at::manual_seed(4);
    const auto count = static_cast<int64_t>(lengths.size());
    const at::Tensor ids = at::randint(data::kSpecialTokens, words, {count, longest}, at::kLong);
    const at::Tensor attended = at::arange(longest).unsqueeze(0).lt(at::tensor(lengths, at::kLong).unsqueeze(1));
    const at::Tensor guessed = at::arange(longest).remainder(3).eq(1).logical_and(attended);
    data::Batch batch;
    batch.number = 7;
    batch.tensors[data::kInputIds] = ids.masked_fill(attended.logical_not(), data::kPadToken);
    batch.tensors[data::kTokenLabels] = ids.masked_fill(guessed.logical_not(), data::kNoLoss);
    batch.tensors[data::kAttentionMask] = attended.to(at::kByte);
    batch.tensors["index"] = at::arange(count);
    return batch;
  }
};

}  // namespace dtrain::tasks
