#include "trainer/config/choices.h"

#include "data/formats/open_source.h"
#include "data/image/augment_policy.h"
#include "data/joined.h"

namespace dtrain::config {

std::vector<Choice> DataFormats() {
  std::vector<Choice> list = data::Formats();
  list.insert(list.begin(), {"auto", "recognised from the contents of --data_dir"});
  list.push_back({"sentences", "sentences or pairs with labels: TSV, CSV, JSONL, or a folder of texts for each class"});
  list.push_back({"synthetic", "random samples, which need no files"});
  return list;
}

std::vector<Choice> Augmentations() {
  std::vector<Choice> list = {{"auto", "basic for image files, none for tensors"}};
  for (const data::Augment& augment : data::Augments()) list.push_back({augment.name, augment.description});
  return list;
}

std::vector<Choice> Optimizers() {
  return {{"sgd", "stochastic gradient descent: --momentum, --nesterov"},
          {"adam", "Adam, whose weight decay is part of the gradient: --adam_betas, --adam_eps"},
          {"adamw", "Adam with decoupled weight decay: --adam_betas, --adam_eps"},
          {"fairseq_adam", "fairseq's adam: adamw with epsilon added before the bias correction"},
          {"lars", "SGD with layer-wise rates, for large batches: --momentum, --lars_trust"},
          {"lamb", "AdamW with layer-wise rates, for large batches: --adam_betas, --adam_eps"},
          {"rmsprop_tf", "TensorFlow's RMSProp, for EfficientNets: --rmsprop_alpha, --rmsprop_eps, --momentum"}};
}

std::vector<Choice> Schedules() {
  return {{"poly", "a power of the remaining part of the run, down to --end_lr: --poly_power (1: a straight line)"},
          {"cosine", "half a cosine, down to --end_lr"},
          {"linear_cosine", "a line times a cosine, as in TensorFlow: --cosine_periods, --cosine_alpha, --cosine_beta"},
          {"step", "multiplied by --lr_decay_factor every --lr_decay_epochs epochs, or at each of several epochs"},
          {"exponential", "as step, but decaying smoothly at every step"},
          {"constant", "the peak rate throughout"}};
}

std::vector<Choice> Losses() {
  return {{"ce", "cross entropy"}, {"bce", "binary cross entropy of each class by itself, averaged over the classes"}};
}

std::vector<Choice> AverageStarts() {
  return {{"tensorflow", "(1 + n) / (10 + n)"},
          {"timm", "1 - n^(-2/3), as with its --model-ema-warmup"},
          {"torchvision", "0, a copy of the weights, until the warmup of the rate has ended; then --ema_decay"},
          {"none", "0 at the first, then --ema_decay"}};
}

std::string NamesOf(const std::vector<Choice>& choices) { return Joined(choices, " | ", &Choice::name); }

std::string Described(const std::vector<Choice>& choices) {
  std::string text;
  for (const auto& [name, description] : choices) {
    if (!description.empty()) text += (text.empty() ? "" : "; ") + name + ": " + description;
  }
  return text;
}

std::string Lines(const std::vector<Choice>& choices) {
  constexpr size_t kColumn = 22;
  std::string lines;
  for (const auto& [name, description] : choices) {
    lines += name + std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ') + description + "\n";
  }
  return lines;
}

}  // namespace dtrain::config
