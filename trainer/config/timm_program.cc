// timm's defaults are those of its train.py and of its models, as of release 1.0.22: train.py, timm/optim,
// timm/scheduler and timm/data/transforms_factory.py. What is not listed is the same here, or cannot change a number.
#include <algorithm>
#include <array>
#include <cmath>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/torch_file.h"
#include "data/joined.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr char kValidate[] = "validate.py", kInference[] = "inference.py";
constexpr std::string_view kNoSplits = "there are no augmented copies with a loss of their own";

// What timm's default_cfg of a model says where ours differs; its train.py evaluates with it.
struct TimmModelDefaults {
  std::string_view begins, ends;  // the name
  int image_size;
  double crop_pct;                 // part of the resized short side that evaluation crops
  bool has_plain_numbers = false;  // a mean and a standard deviation of 0.5
  int test_size = 0;               // what validate.py has instead, unless 0
  double test_crop_pct = 1;
};

constexpr TimmModelDefaults kResNet = {"resnet", "", 224, 0.95, false, 288};
constexpr auto kModels =
    std::to_array<TimmModelDefaults>({{"efficientnet_", "b0", 224, 0.875},
                                      {"efficientnet_", "b1", 240, 0.9, true, 288},
                                      {"efficientnet_", "b2", 256, 0.875, false, 288},
                                      {"efficientnet_", "b3", 288, 0.875, false, 320},
                                      {"efficientnet_", "b4", 320, 0.875, false, 384},
                                      {"efficientnet_", "b5", 448, 1.0},  // squashed, cropped here
                                      {"efficientnet_", "b6", 528, 0.942},
                                      {"efficientnet_", "b7", 600, 0.949},
                                      {"tf_efficientnet_", "b0", 224, 0.875},
                                      {"tf_efficientnet_", "b1", 240, 0.882},
                                      {"tf_efficientnet_", "b2", 260, 0.890},
                                      {"tf_efficientnet_", "b3", 300, 0.904},
                                      {"tf_efficientnet_", "b4", 380, 0.922},
                                      {"tf_efficientnet_", "b5", 456, 0.934},
                                      {"tf_efficientnet_", "b6", 528, 0.942},
                                      {"tf_efficientnet_", "b7", 600, 0.949},
                                      {"efficientnetv2_", "s", 288, 1.0, false, 384},
                                      {"efficientnetv2_", "m", 320, 1.0, false, 416},
                                      {"efficientnetv2_", "l", 384, 1.0, false, 480},
                                      {"tf_efficientnetv2_", "s", 300, 1.0, true, 384},
                                      {"tf_efficientnetv2_", "xl", 384, 1.0, true, 512},  // likewise
                                      {"tf_efficientnetv2_", "", 384, 1.0, true, 480},    // likewise
                                      {"vit_", "dinov2", 518, 1.0},
                                      {"vit_", "_gap_240", 240, 0.95, true},
                                      {"vit_", "_gap_256", 256, 0.95, true},
                                      {"vit_", "_gap_384", 384, 0.95, true},  // likewise
                                      {"vit_", "_384", 384, 1.0, true},
                                      {"vit_", "_224", 224, 0.9, true},
                                      {"deit", "_384", 384, 1.0},
                                      {"deit", "_224", 224, 0.9},
                                      {"convnext_", "nano", 224, 0.95, false, 288},
                                      {"convnext_", "tiny", 224, 0.95, false, 288},
                                      {"convnext_", "small", 224, 0.95, false, 288},
                                      {"convnextv2_", "huge", 384, 1.0},  // likewise
                                      {"convnextv2_", "small", 224, 0.875},
                                      {"convnext", "_atto", 224, 0.875, false, 288, 0.95},
                                      {"convnext", "_femto", 224, 0.875, false, 288, 0.95},
                                      {"convnext", "_pico", 224, 0.875, false, 288, 0.95},
                                      {"convnext", "", 224, 0.875, false, 288}});

std::string TimmModel(const ForeignCommand& command) { return command.Value({"model"}, "resnet50"); }

// Returns those of the command's model; of an unknown one, a ResNet's.
TimmModelDefaults TimmModelOf(const ForeignCommand& command) {
  const std::string model = TimmModel(command);
  const auto* const found = std::ranges::find_if(kModels, [&](const TimmModelDefaults& one) {
    return model.starts_with(one.begins) && model.ends_with(one.ends);
  });
  TimmModelDefaults defaults = found == kModels.end() ? kResNet : *found;
  if (command.Script() == kValidate && !command.Has({"use_train_size"}) && defaults.test_size > 0) {
    defaults.image_size = defaults.test_size;
    defaults.crop_pct = defaults.test_crop_pct;
  }
  return defaults;
}

double ImageSizeOf(const ForeignCommand& command) {
  const std::string input = command.Numbers({"input_size"}, "");
  const double of_input = NumberFrom(input.substr(input.rfind(',') + 1)).value_or(0);
  const double otherwise = of_input > 0 ? of_input : TimmModelOf(command).image_size;
  return command.Number({"img_size", "image_size"}, otherwise);
}

bool HasPolicy(const ForeignCommand& command) { return !command.Value({"aa", "augment"}, "").empty(); }

bool Mixes(const ForeignCommand& command) {
  return command.Number({"mixup"}, 0) > 0 || command.Number({"cutmix"}, 0) > 0;
}

std::string OptimizerOf(const ForeignCommand& command) { return Lower(command.Value({"opt"}, "sgd")); }
// The same, or that of our own flag.
std::string AnyOptimizerOf(const ForeignCommand& command) { return Lower(command.Value({"opt", "optimizer"}, "sgd")); }

// A rate of 0 is none.
bool HasRate(const ForeignCommand& command) { return command.Number({"lr"}, 0) != 0; }
bool HasNoRate(const ForeignCommand& command) { return !HasRate(command); }

// Without augmentation there are no random crops either.
bool Augments(const ForeignCommand& command) { return !command.Has({"no_aug"}); }
// A policy changes colours, too.
bool JittersColors(const ForeignCommand& command) { return Augments(command) && !HasPolicy(command); }

void AddRateOfTimm(const ForeignCommand& command, std::vector<std::string>& flags) {
  if (HasRate(command)) return;
  const std::string optimizer = AnyOptimizerOf(command);
  const bool is_adaptive = optimizer.find("ada") != std::string::npos || optimizer.find("lamb") != std::string::npos;
  AddFlags("--lr=0.1 --lr_base_batch=256", flags);
  flags.push_back(is_adaptive ? "--lr_scaling=sqrt" : "--lr_scaling=linear");
}

void AddModelOfTimm(const ForeignCommand& command, std::vector<std::string>& flags) {
  const std::string model = TimmModel(command);
  const TimmModelDefaults defaults = TimmModelOf(command);
  const double size = ImageSizeOf(command);
  flags.push_back("--image_size=" + ToText(size));
  flags.push_back("--eval_resize=" + ToText(std::floor(size / defaults.crop_pct)));
  if (defaults.has_plain_numbers) AddFlags("--mean=0.5,0.5,0.5 --std=0.5,0.5,0.5", flags);
  if (model.starts_with("resnet")) flags.push_back("--zero_init_residual=true");
  if (model.find("efficientnet") != std::string::npos) AddFlags("--dropout=0 --drop_path=0", flags);
  if (model.starts_with("efficientnet")) AddFlags("--bn_eps=1e-05 --bn_momentum=0.1", flags);
}

std::vector<std::string> DefaultsOfTimm(const ForeignCommand& command) {
  std::vector<std::string> flags = {"--label_smoothing=0.1", "--epochs=300", "--seed=42"};
  if (!command.Has({"global_batch_size"})) flags.push_back("--batch_size=128");
  AddRateOfTimm(command, flags);
  AddFlags("--lr_schedule=cosine --schedule_through_warmup=true --lr_per_epoch=true --warmup_start_lr=1e-05", flags);
  if (!command.Has({"warmup_steps"})) flags.push_back("--warmup_epochs=5");
  if (!command.Has({"opt", "optimizer"})) flags.push_back("--nesterov=true");
  if (OptimizerOf(command) == "lamb") AddFlags("--adam_eps=1e-06 --clip_norm=1", flags);
  AddFlags("--weight_decay=2e-05 --decay_norm_and_bias=false", flags);
  if (JittersColors(command)) flags.push_back("--color_jitter=0.4");
  flags.push_back("--interpolation=" + (Augments(command) ? "random" : command.Value({"interpolation"}, "bicubic")));
  flags.push_back("--eval_interpolation=bicubic");
  AddModelOfTimm(command, flags);
  if (command.Script() == kValidate) flags.push_back("--mode=eval");
  if (command.Script() == kInference) flags.push_back("--mode=predict");
  AddFlags("--last_batch=drop --keep_checkpoints=10 --log_interval=50", flags);
  return flags;
}

// Steps at milestones: timm's rate falls an epoch before each of them (timm/scheduler/multistep_lr.py).
std::string EpochsBefore(const std::string& milestones) {
  auto epochs = NumberListFrom(milestones);
  if (!epochs) return milestones;  // which is refused
  for (double& epoch : *epochs) --epoch;
  if (epochs->size() == 1) epochs->push_back(1'000'000);  // one number would be a period
  return ToText(*epochs);
}

Translation Schedule(const std::string& value, const ForeignCommand& command) {
  const std::string rate = command.Value({"decay_rate", "dr"}, "0.1");
  if (value == "cosine") return {{"--lr_schedule=cosine"}};
  if (value == "poly") return {{"--lr_schedule=poly", "--poly_power=" + rate}};
  if (value == "step") {
    return {{"--lr_schedule=step", "--lr_decay_factor=" + rate,
             "--lr_decay_epochs=" + command.Value({"decay_epochs"}, "90")}};
  }
  if (value == "multistep" && command.Has({"sched_on_updates"})) {
    return {.refused = "with --sched-on-updates timm's rate falls one update before each milestone; leave that out"};
  }
  if (value == "multistep") {
    return {{"--lr_schedule=step", "--lr_decay_factor=" + rate,
             "--lr_decay_epochs=" + EpochsBefore(command.Numbers({"decay_milestones"}, "90,180,270"))}};
  }
  return {.refused = "expected cosine | step | multistep | poly"};
}

Translation Epochs(const std::string& value, const ForeignCommand& command) {
  const auto epochs = NumberFrom(value);
  const bool comes_before = epochs && command.Has({"warmup_prefix"});
  return {{"--epochs=" + (comes_before ? ToText(*epochs + command.Number({"warmup_epochs"}, 5)) : value)}};
}

// With it the warmup comes before the epochs, and lengthens the run.
Translation WarmupBefore(const std::string&, const ForeignCommand& command) {
  Translation translation{{"--schedule_through_warmup=false"}};
  if (!command.Has({"epochs"}))
    translation.flags.push_back("--epochs=" + ToText(300 + command.Number({"warmup_epochs"}, 5)));
  return translation;
}

// timm's LARS and LAMB adapt nothing that does not decay, which leaves SGD and Adam.
struct TimmOptimizer {
  std::string_view name;
  std::vector<std::string> flags, without_decay = {};
  bool is_elsewhere = false;  // other programs have the name, too
};

const std::vector<TimmOptimizer>& TimmOptimizers() {
  static const std::vector<TimmOptimizer> known = {
      {"sgd", {"--optimizer=sgd", "--nesterov=true"}, {}, true},
      {"nesterov", {"--optimizer=sgd", "--nesterov=true"}},
      {"momentum", {"--optimizer=sgd"}},
      {"adam", {"--optimizer=adam"}, {}, true},
      {"adamw", {"--optimizer=adamw"}, {}, true},
      {"lamb", {"--optimizer=lamb"}, {"--optimizer=adam"}},
      {"lars", {"--optimizer=lars"}, {"--optimizer=sgd"}},
      {"nlars", {"--optimizer=lars", "--nesterov=true"}, {"--optimizer=sgd", "--nesterov=true"}},
      {"rmsproptf", {"--optimizer=rmsprop_tf"}}};
  return known;
}

Translation Optimizer(const std::string& value, const ForeignCommand& command) {
  const std::vector<TimmOptimizer>& known = TimmOptimizers();
  const auto found = std::ranges::find(known, Lower(value), &TimmOptimizer::name);
  if (found == known.end()) return {.refused = "expected " + Joined(known, " | ", &TimmOptimizer::name)};
  const bool decays = NumberFrom(command.Value({"weight_decay"}, "2e-5")) != 0.0;
  if (decays || found->without_decay.empty()) return {found->flags};
  return {.flags = found->without_decay, .note = "timm scales no layer's step without weight decay"};
}

// LAMB clips the gradients at 1 in any case.
Translation Clip(const std::string& value, const ForeignCommand& command) {
  const auto norm = NumberFrom(value);
  if (norm == 0.0) return {.refused = "timm's gradients are then all 0; leave it out"};
  const bool is_lamb = OptimizerOf(command) == "lamb" && norm && *norm > 1;
  return {{"--clip_norm=" + (is_lamb ? "1" : value)}};
}

Translation Accumulation(const std::string& value, const ForeignCommand&) {
  if (const auto steps = NumberFrom(value); steps && *steps <= 1) return {{"--grad_accum_steps=1"}};
  return {.flags = {"--grad_accum_steps=" + value},
          .note = "an epoch ends with its last whole step; timm takes one more of the batches that remain"};
}

// timm smooths, or mixes, the targets of its binary cross entropy; without either it takes the cross entropy.
Translation BinaryLoss(const std::string&, const ForeignCommand& command) {
  if (!Mixes(command) && command.Number({"smoothing"}, 0.1) == 0) {
    return {.flags = {"--loss=ce"}, .note = "timm takes the cross entropy without smoothing and mixing"};
  }
  Translation translation{{"--loss=bce"}};
  if (const auto threshold = command.Find({"bce_target_thresh"})) {
    translation.flags.push_back("--bce_threshold=" + *threshold);
  }
  if (command.Has({"bce_sum"})) translation.flags.push_back("--bce_sum=true");
  return translation;
}

Translation Amp(const std::string&, const ForeignCommand& command) {
  const std::string type = command.Value({"amp_dtype"}, "float16");
  if (type != "float16" && type != "bfloat16") return {.refused = "--amp-dtype is float16 or bfloat16"};
  return {{type == "float16" ? "--precision=amp" : "--precision=bf16"}};
}

Translation Policy(const std::string& value, const ForeignCommand&) {
  if (value.empty()) return {};
  if (std::string why = WhyNotTimms(value); !why.empty()) return {.refused = std::move(why)};
  return {{"--augment=" + value}};
}

Translation Erasing(const std::string& value, const ForeignCommand& command) {
  if (NumberFrom(value) == 0.0) return {};
  return {{"--random_erasing=" + value, "--erasing=" + command.Value({"remode"}, "pixel")}};
}

// timm's average, of all weights and statistics at each update. Without --model-ema its other flags have no effect.
Translation Average(const std::string&, const ForeignCommand& command) {
  const bool rises = command.Has({"model_ema_warmup"});
  return {{"--ema_decay=" + command.Value({"model_ema_decay"}, "0.9998"),
           std::string("--ema_start=") + (rises ? "timm" : "none")}};
}

// Then timm evaluates the weights alone.
Translation AverageOnCpu(const std::string&, const ForeignCommand& command) {
  if (!command.Has({"model_ema"})) return {};
  return {.flags = {"--best_of=raw"}, .note = "the average is on the device, and evaluated beside the weights"};
}

Translation CropPart(const std::string& value, const ForeignCommand& command) {
  const double part = NumberFrom(value).value_or(0);
  if (!(part > 0 && part <= 1)) return {.refused = "expected a number, more than 0 to 1"};
  return {{"--eval_resize=" + ToText(std::floor(ImageSizeOf(command) / part))}};
}

Translation InputSize(const std::string& value, const ForeignCommand& command) {
  const std::string side = ToText(ImageSizeOf(command));
  if (value != "3," + side + "," + side) return {.refused = "expected 3 SIZE SIZE, for square images of three colours"};
  return {{"--image_size=" + side}};
}

// A number of the optimizer's own, if it has one, which a plan calls `shown`.
Translation OfOptimizer(std::string_view shown, const std::string& value, const ForeignCommand& command) {
  const std::string optimizer = AnyOptimizerOf(command);
  const auto known = std::ranges::find(TimmOptimizers(), optimizer, &TimmOptimizer::name);
  OptimizerConfig config;
  config.name = known == TimmOptimizers().end() ? optimizer
                                                : known->flags.front().substr(std::string_view("--optimizer=").size());
  for (const std::string_view flag : FactsOf(config).flags) {
    if (FindFlag(std::string(flag))->traits.shown == shown) return {{"--" + std::string(flag) + "=" + value}};
  }
  return {.note = "timm's " + optimizer + " has none"};
}

Translation Epsilon(const std::string& value, const ForeignCommand& command) {
  return OfOptimizer("eps", value, command);
}

Translation BetasOfTimm(const std::string& value, const ForeignCommand& command) {
  return OfOptimizer("betas", value, command);
}

// Of a folder validate.py and inference.py take a split for validation, if there is one, else the classes in itself.
Translation FolderOfScript(const std::string& folder, const ForeignCommand& command) {
  Translation translation{{"--data_dir=" + folder}};
  const bool infers = command.Script() == kInference;
  if (!infers && (command.Script() != kValidate || command.Has({"val_split"}))) return translation;
  const data::FolderContent content = data::ContentOf(folder);
  const auto split = std::ranges::find_if(content.folders, data::IsValidationName);
  if (infers) return {{"--input=" + folder + (split == content.folders.end() ? "" : "/" + *split)}};
  const auto is_split = [](const std::string& name) {
    const std::string word = name.substr(0, name.find_first_of("-_."));
    return word == "train" || data::IsValidationName(word);
  };
  const bool has_splits =
      std::ranges::any_of(content.folders, is_split) || std::ranges::any_of(content.files, is_split);
  if (!content.folders.empty() && !has_splits) translation.flags.push_back("--val_split=.");
  return translation;
}

// The run's folder; of what is not trained, the file or folder that is written.
Translation Output(const std::string& value, const ForeignCommand& command) {
  const bool trains = command.Value({"mode"}, "train") == "train" && command.Script() != kInference;
  if (!trains) return {{"--output=" + value}};
  const std::string experiment = command.Value({"experiment"}, "");
  return {{"--run_dir=" + value + (experiment.empty() ? "" : "/" + experiment)}};
}

Translation Experiment(const std::string&, const ForeignCommand& command) {
  if (command.Has({"output"})) return {};
  return {.note = "use --run_dir to name the folder"};
}

// Of a checkpoint that has an average of the weights, timm takes that; validate.py only with --use-ema.
Translation TimmWeights(const std::string& path, const ForeignCommand& command) {
  Translation translation{{"--init_weights=" + path}};
  if (command.Script() == kValidate && !command.Has({"use_ema"})) return translation;
  try {
    const std::string taken = data::TorchFile(path, data::WeightSet::kAverage).taken();
    if (taken == "state_dict_ema" || taken == "model_ema") translation.flags.push_back("--weights=ema");
  } catch (const DataError&) {  // what is no such file has no average, and what cannot be read is reported later
  }
  return translation;
}

// timm's names of readers. The folders and archives among them are recognised here by what is in them.
Translation Reader(const std::string& value, const ForeignCommand&) {
  for (const char* downloads : {"torch/", "hfds/", "hfids/", "tfds/"}) {
    if (value.starts_with(downloads)) return {.refused = "data is read from files: name their folder with --data-dir"};
  }
  return {.note = "what is in the files tells their format"};
}

std::vector<Alias> DataAndModel() {
  return Together({Renamed("img_size=image_size drop=dropout"),
                   Translated(Output, "output"),
                   Translated(TimmWeights, "initial_checkpoint checkpoint"),
                   Switches("grad_checkpointing=--activation_checkpointing"),
                   OnlyTaken("amp_impl=native", "apex has rounding of its own"),
                   WithoutEffect(kEvaluationBatch, "validation_batch_size vb"),
                   WithoutEffect(kNoPython, "torchcompile_mode fuser", "torchscript"),
                   WithoutEffect(kOwnLoader, "", "no_prefetcher use_multi_epochs_loader"),
                   WithoutEffect("statistics are averaged, not broadcast", "", "no_ddp_bb"),
                   WithoutEffect("batches are always pinned if there is a GPU", "", "pin_mem"),
                   WithoutEffect("it is for measuring", "", "synchronize_step"),
                   Translated(OfAnother, "model_ema_decay amp_dtype", "model_ema_warmup use_train_size use_ema"),
                   Translated(FolderOfScript, "data_dir"),
                   Translated(Reader, "dataset"),
                   Translated(Amp, "", "amp native_amp"),
                   {{.name = "class_map", .refused = "classes have the order of their names, or that of classes.txt"},
                    {.name = "input_key", .refused = "images are known by their endings"},
                    {.name = "target_key", .refused = "labels are those of KEY.cls or KEY.json"},
                    {.name = "input_size", .translate = InputSize, .takes_numbers = true},
                    {.name = "crop_pct", .translate = CropPart},
                    {.name = "interpolation",
                     .flag = "eval_interpolation",
                     .words = {{"", ""}, {"bilinear", "bilinear"}, {"bicubic", "bicubic"}}},
                    {.name = "mean", .flag = "mean", .takes_numbers = true},
                    {.name = "std", .flag = "std", .takes_numbers = true},
                    {.name = "dist_bn",
                     .words = {{"reduce", "", "", "statistics of batch normalisation are averaged at every step"}},
                     .refused = "statistics of batch normalisation are averaged over ranks, as with reduce"},
                    {.name = "model_ema", .takes_value = false, .translate = Average},
                    {.name = "model_ema_force_cpu", .takes_value = false, .translate = AverageOnCpu},
                    {.name = "torchcompile", .takes_value = false, .reason = kNoPython, .value_is_optional = true}}});
}

std::vector<Alias> Rates() {
  return Together({Renamed("min_lr=end_lr"),
                   Switches("sched_on_updates=--nolr_per_epoch"),
                   OnlyTaken("cooldown_epochs=0", "--schedule_steps may be shorter than the run"),
                   Translated(OfAnother, "decay_epochs decay_rate dr"),
                   {{.name = "opt", .translate = Optimizer},
                    {.name = "opt_eps", .translate = Epsilon},
                    {.name = "opt_betas", .translate = BetasOfTimm, .takes_numbers = true},
                    {.name = "clip_grad", .translate = Clip},
                    {.name = "grad_accum_steps", .translate = Accumulation},
                    {.name = "sched", .translate = Schedule},
                    {.name = "lr", .flag = "lr", .counts = HasRate},
                    {.name = "lr_base", .flag = "lr", .counts = HasNoRate},
                    {.name = "lr_base_size", .flag = "lr_base_batch", .counts = HasNoRate},
                    {.name = "lr_base_scale",
                     .flag = "lr_scaling",
                     .words = {{"", ""}},
                     .other_words_pass = true,
                     .counts = HasNoRate},
                    {.name = "epochs", .translate = Epochs},
                    {.name = "warmup_prefix", .takes_value = false, .translate = WarmupBefore},
                    {.name = "decay_milestones", .translate = OfAnother, .takes_numbers = true},
                    {.name = "lr_noise", .refused = "rates follow the schedule alone", .takes_numbers = true}}});
}

std::vector<Alias> Augmentation() {
  return Together(
      {Renamed("recount=erasing_count smoothing=label_smoothing mixup_prob=mix_prob mixup_switch_prob=mix_switch_prob"),
       OnlyTaken("crop_mode=center", "evaluation crops the middle of images; squashed and padded ones are none"),
       OnlyTaken("aug_splits=0", kNoSplits),
       Translated(OfAnother, "remode bce_target_thresh", "bce_sum"),
       {{.name = "aa", .translate = Policy, .counts = Augments},
        {.name = "color_jitter", .flag = "color_jitter", .counts = JittersColors},
        // The whole middle square, not the part of it that evaluation crops.
        {.name = "no_aug",
         .takes_value = false,
         .implied = "--augment=basic --crop_scale=1,1 --crop_ratio=1,1 --hflip=0"},
        {.name = "reprob", .translate = Erasing, .counts = Augments},
        {.name = "bce_loss", .takes_value = false, .translate = BinaryLoss},
        {.name = "mixup_off_epoch", .flag = "mix_epochs", .counts = Mixes},
        {.name = "aug_repeats", .flag = "repeated_augmentation", .words = {{"0", "1"}}, .other_words_pass = true},
        {.name = "cutmix_minmax", .refused = "boxes have the sizes that --cutmix draws", .takes_numbers = true},
        {.name = "resplit", .takes_value = false, .refused = kNoSplits},
        {.name = "split_bn", .takes_value = false, .refused = kNoSplits},
        {.name = "jsd", .takes_value = false, .refused = kNoSplits},
        {.name = "jsd_loss", .takes_value = false, .refused = kNoSplits},
        {.name = "train_interpolation",
         .flag = "interpolation",
         .words = {{"random", "random"}, {"bilinear", "bilinear"}, {"bicubic", "bicubic"}, {"", "bicubic"}}},
        {.name = "scale", .flag = "crop_scale", .takes_numbers = true, .counts = Augments},
        {.name = "ratio", .flag = "crop_ratio", .takes_numbers = true, .counts = Augments},
        {.name = "hflip", .flag = "hflip", .counts = Augments}}});
}

std::vector<Alias> Running() {
  return Together(
      {Renamed("checkpoint_hist=keep_checkpoints recovery_interval=save_every_steps val_interval=eval_every_epochs"),
       WithoutEffect("eval-SPLIT/result.json has the numbers", "results_file results_format"),
       Translated(Experiment, "experiment"),
       WithoutEffect("--on_event=scripts/events_to_wandb.py passes numbers on", "", "log_wandb"),
       {{.name = "c", .refused = "give its settings as flags"},
        {.name = "eval_metric", .flag = "best_metric", .words = {{"top1", ""}, {"top5", "top5"}, {"loss", "loss"}}}}});
}

}  // namespace

const ForeignProgram& TimmProgram() {
  static const ForeignProgram program = [] {
    ForeignProgram timm{.name = "timm",
                        .called = "timm's train.py",
                        .signatures = {},
                        .defaults = DefaultsOfTimm,
                        .rows = Together({DataAndModel(), Rates(), Augmentation(), Running()})};
    for (const TimmOptimizer& one : TimmOptimizers()) {
      if (!one.is_elsewhere) timm.signatures.push_back({"opt", one.name});
    }
    timm.scripts = {kValidate, kInference};
    timm.weak_signatures = {{"opt"}};  // torchvision's script has it, too
    return timm;
  }();
  return program;
}

}  // namespace dtrain::config
