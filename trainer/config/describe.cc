#include "trainer/config/describe.h"

#include "trainer/config/choices.h"
#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

std::string NumberText(double number) { return ToText(Value(number)); }

// Joins parts with commas.
class Sentence {
 public:
  void Add(const std::string& part) { text_ += (text_.empty() ? "" : ", ") + part; }
  void AddIfPositive(const char* name, double number) {
    if (number > 0) Add(name + (" " + NumberText(number)));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string DescribeCrop(const ImageConfig& image) {
  const ImageConfig defaults;
  std::string text = "crop";
  if (image.crop_scale != defaults.crop_scale) text += " (scale " + ToText(image.crop_scale) + ")";
  if (image.crop_ratio != defaults.crop_ratio) text += " (ratio " + ToText(image.crop_ratio) + ")";
  if (image.hflip > 0) text += " and flip";
  if (image.hflip > 0 && image.hflip != defaults.hflip) text += " (" + NumberText(image.hflip) + ")";
  return text;
}

}  // namespace

std::string DescribeAugmentation(const ImageConfig& image, const std::string& by_default) {
  const std::string& augment = image.augment == "auto" ? by_default : image.augment;
  Sentence sentence;
  if (augment != "none") sentence.Add(DescribeCrop(image));
  if (augment != "none" && augment != "basic") {
    sentence.Add(IsTimmAugmentation(augment) ? augment : augment + " (" + image.augment_interpolation + ")");
  }
  if (image.color_jitter != std::vector<double>(image.color_jitter.size(), 0)) {
    sentence.Add("color jitter " + ToText(image.color_jitter));
  }
  sentence.AddIfPositive("PCA lighting", image.pca_lighting);
  sentence.AddIfPositive("blur", image.blur);
  sentence.AddIfPositive("random erasing", image.random_erasing);
  sentence.AddIfPositive("mixup", image.mixup);
  sentence.AddIfPositive("cutmix", image.cutmix);
  if (image.repeated_augmentation > 1) sentence.Add("repeated " + std::to_string(image.repeated_augmentation));
  return sentence.text().empty() ? "none" : sentence.text();
}

std::string DescribeOptimizer(const OptimizerConfig& optimizer) {
  const OptimizerFacts& facts = FactsOf(optimizer);
  Sentence sentence;
  sentence.Add(optimizer.name);
  if (facts.Takes("adam_betas")) sentence.Add("betas " + ToText(optimizer.adam_betas));
  if (facts.Takes("adam_eps")) sentence.Add("eps " + NumberText(optimizer.adam_eps));
  if (facts.Takes("momentum")) {
    sentence.Add("momentum " + NumberText(optimizer.momentum) + (optimizer.nesterov ? " (Nesterov)" : ""));
  }
  if (facts.Takes("lars_trust")) {
    sentence.Add("trust " + NumberText(optimizer.lars_trust) + (optimizer.lars_clip ? " (clipped)" : ""));
  }
  if (facts.Takes("rmsprop_alpha")) sentence.Add("alpha " + NumberText(optimizer.rmsprop_alpha));
  if (facts.Takes("rmsprop_eps")) sentence.Add("eps " + NumberText(optimizer.rmsprop_eps));
  sentence.Add("weight decay " + NumberText(optimizer.weight_decay) +
               (optimizer.decay_norm_and_bias ? "" : " (none on norms and biases)"));
  if (optimizer.backbone_lr_factor != 1) {
    sentence.Add("backbone at " + NumberText(optimizer.backbone_lr_factor) + " of the learning rate");
  }
  if (optimizer.layer_decay != 1) {
    sentence.Add("each layer at " + NumberText(optimizer.layer_decay) + " of the rate of the one above it");
  }
  sentence.AddIfPositive("clipped to", optimizer.clip_norm);
  sentence.AddIfPositive("label smoothing", optimizer.label_smoothing);
  if (optimizer.loss == "bce") sentence.Add("binary cross entropy");
  sentence.AddIfPositive("EMA", optimizer.ema_decay);
  return sentence.text();
}

}  // namespace dtrain::config
