// The input of --mode=predict for programs: a safetensors file with token ids.
#include <ATen/ATen.h>

#include <algorithm>

#include "data/storage.h"
#include "data/text/token_rows.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/feature_file.h"
#include "trainer/tasks/predict_sentences.h"

namespace dtrain::tasks {
namespace {

bool IsWhole(const at::Tensor& tensor) { return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true); }

// `what` is the beginning of the message.
void RequireBelow(const at::Tensor& numbers, int64_t end, const std::string& what) {
  const at::Tensor outside = numbers.lt(0).logical_or(numbers.ge(end));
  if (!outside.any().item<bool>()) return;
  const auto number = numbers.masked_select(outside)[0].item<int64_t>();
  throw DataError(what + std::to_string(number) + ", but the model knows " + std::to_string(end));
}

// Throws DataError for tokens that the model does not know, and for rows that are too long for it. Warns of rows
// without a token.
void RequireKnown(const TokenRows& input, const models::TextShape& model, const std::string& path) {
  RequireBelow(input.ids, model.vocab_size, "input_ids in " + path + " has the token ");
  if (input.types.defined()) {
    RequireBelow(input.types, std::max<int64_t>(1, model.token_types), "token_type_ids in " + path + " has the type ");
  }
  const int64_t tokens = input.ids.ne(model.padding_id).sum(1).max().item<int64_t>();
  if (tokens > model.longest_sequence) {
    throw DataError("input_ids in " + path + " has a row of " + std::to_string(tokens) +
                    " tokens, but the model has positions for " + std::to_string(model.longest_sequence));
  }
  if (const auto empty = input.attended.any(1).logical_not().sum().item<int64_t>(); empty > 0) {
    report::LogWarning("rows without a token have logits of 0: " + std::to_string(empty) + " of " + path);
  }
}

}  // namespace

TokenRows ReadTokenRows(const config::Config& config) {
  const std::string& path = config.run.input;
  if (!data::IsFile(path)) {
    throw UsageError("--input=" + path + " is not a file", "name a safetensors file with the tensor input_ids");
  }
  TokenRows input;
  for (const auto& [name, tensor] : checkpoint::ReadSafetensors(path).tensors) {
    if (name == "input_ids") input.ids = tensor;
    if (name == "attention_mask") input.attended = tensor;
    if (name == data::kTokenTypes) input.types = tensor;
  }
  if (!input.ids.defined()) throw DataError("no tensor input_ids in " + path, "store token ids under that name: N×T");
  if (!IsWhole(input.ids) || input.ids.dim() != 2 || input.ids.numel() == 0) {
    throw DataError("input_ids in " + path + " is not int64 or int32, N×T");
  }
  input.ids = input.ids.to(at::kLong);
  if (input.types.defined()) {
    if (!IsWhole(input.types) || input.types.sizes() != input.ids.sizes()) {
      throw DataError(std::string(data::kTokenTypes) + " in " + path +
                      " is not of whole numbers and the shape of input_ids");
    }
    input.types = input.types.to(at::kLong);
  }
  if (!input.attended.defined()) return input;
  if (input.attended.sizes() != input.ids.sizes()) {
    throw DataError("attention_mask in " + path + " is not of the shape of input_ids");
  }
  input.attended = input.attended.ne(0);
  return input;
}

void PredictTokens(const config::Config& config, TokenRows input, const models::TextShape& model,
                   const data::Classes* classes, const std::function<at::Tensor(const TokenRows& rows)>& logits_of) {
  if (!input.attended.defined()) input.attended = input.ids.ne(model.padding_id);
  RequireKnown(input, model, config.run.input);
  const at::NoGradGuard no_grad;
  const int64_t batch_size = config::ResolveBatch(config.batch, 1).batch_size;
  std::vector<at::Tensor> logits;
  for (int64_t row = 0; row < input.ids.size(0); row += batch_size) {
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.slice(0, row, row + batch_size) : all; };
    logits.push_back(logits_of({part(input.ids), part(input.attended), part(input.types)}).cpu());
  }
  at::Tensor all = at::cat(logits);
  std::vector<int64_t> by_row(static_cast<size_t>(all.dim()), 1);
  by_row[0] = -1;
  all.masked_fill_(input.attended.any(1).logical_not().view(by_row), 0);
  WriteLogits(config.run.output, all, classes);
}

}  // namespace dtrain::tasks
