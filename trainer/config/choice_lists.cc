#include "trainer/config/choice_lists.h"

#include <map>

#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

const std::map<std::string, std::string>& Descriptions() {
  static const std::map<std::string, std::string> table = {
      {"sgd", "stochastic gradient descent: --momentum, --nesterov"},
      {"adam", "Adam, whose weight decay is part of the gradient: --adam_betas, --adam_eps"},
      {"adamw", "Adam with decoupled weight decay: --adam_betas, --adam_eps"},
      {"fairseq_adam", "fairseq's adam: adamw with epsilon added before the bias correction"},
      {"lars", "SGD with layer-wise rates, for large batches: --momentum, --lars_trust"},
      {"lamb", "AdamW with layer-wise rates, for large batches: --adam_betas, --adam_eps"},
      {"rmsprop_tf", "TensorFlow's RMSProp, for EfficientNets: --rmsprop_alpha, --rmsprop_eps, --momentum"},
      {"poly", "a power of the remaining part of the run, down to --end_lr: --poly_power (1: a straight line)"},
      {"cosine", "half a cosine, down to --end_lr"},
      {"linear_cosine", "a line times a cosine, as in TensorFlow: --cosine_periods, --cosine_alpha, --cosine_beta"},
      {"step", "multiplied by --lr_decay_factor every --lr_decay_epochs epochs, or at each of several epochs"},
      {"exponential", "as step, but decaying smoothly at every step"},
      {"constant", "the peak rate throughout"},
  };
  return table;
}

}  // namespace

std::string ListLine(const std::string& name, const std::string& description) {
  constexpr size_t kColumn = 18;
  return name + std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ') + description + "\n";
}

std::string ListOfChoices(const std::string& flag) {
  std::string list;
  for (const std::string& name : FindFlag(flag)->limits.choices) {
    const auto found = Descriptions().find(name);
    list += ListLine(name, found == Descriptions().end() ? "" : found->second);
  }
  return list;
}

}  // namespace dtrain::config
