// Declares every flag once. DTRAIN_FLAG defines a flag with gflags and adds it to the table; config.h has its default,
// and its section is the struct of its field. FLAGS_ variables exist in this file only, so that no other code depends
// on a global.
#include "trainer/config/flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

namespace dtrain::config {
namespace {

std::vector<Flag>& MutableFlags() {
  static std::vector<Flag> flags;
  return flags;
}

bool Add(Flag flag, const char* member) {
  flag.section = std::string(member).substr(0, std::string(member).find('.'));
  MutableFlags().push_back(std::move(flag));
  return true;
}

// The limits that a flag can have.
Limits Anything() { return {}; }
Limits AtLeast(double minimum) { return {.minimum = minimum}; }
Limits MoreThan(double minimum) { return {.minimum = minimum, .minimum_excluded = true}; }
Limits Between(double minimum, double maximum) { return {.minimum = minimum, .maximum = maximum}; }
Limits Inside(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum, .minimum_excluded = true, .maximum_excluded = true};
}
Limits Below(double maximum) { return {.minimum = 0, .maximum = maximum, .maximum_excluded = true}; }
Limits OneOf(const std::string& words) {
  Limits limits;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    if (word != "|") limits.choices.push_back(word);
  }
  return limits;
}

template <typename T>
constexpr Kind KindOf() {
  if constexpr (std::is_same_v<T, bool>) return Kind::kBool;
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>) return Kind::kInteger;
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>) return Kind::kNumber;
  if constexpr (std::is_same_v<T, std::vector<double>>) return Kind::kNumbers;
  return Kind::kText;
}

template <typename T>
Value ToValue(const T& field) {
  return field;
}
template <typename T>
Value ToValue(const std::optional<T>& field) {
  return field ? Value(*field) : Value();
}

// The default of a field in gflags, which has neither optionals (0 here) nor lists (texts here).
template <typename T>
T GflagsDefault(const T& field) {
  return field;
}
template <typename T>
T GflagsDefault(const std::optional<T>&) {
  return 0;
}
std::string GflagsDefault(const std::vector<double>& field) { return ToText(field); }

template <typename T, typename FlagType>
bool Store(T& field, const FlagType& flag) {
  field = flag;
  return true;
}
bool Store(std::vector<double>& field, const std::string& flag) {
  std::vector<double> numbers;
  std::istringstream stream(flag + ",");
  for (std::string item; std::getline(stream, item, ',');) {
    const std::optional<double> number = NumberFrom(item);
    if (!number) return false;
    numbers.push_back(*number);
  }
  field = numbers;
  return true;
}

}  // namespace
}  // namespace dtrain::config

// `member` is the field's path in Config.
#define DTRAIN_FLAG(type, name, member, limits, unit, text)                                  \
  DEFINE_##type(name, dtrain::config::GflagsDefault(dtrain::config::Config().member), text); \
  namespace dtrain::config {                                                                 \
  [[maybe_unused]] static const bool added_##name =                                          \
      Add({#name, "", KindOf<decltype(Config().member)>(), limits, unit, text,               \
           [](const Config& config) { return ToValue(config.member); },                      \
           [](Config& config) { return Store(config.member, FLAGS_##name); }},               \
          #member);                                                                          \
  }

// clang-format off
// type, name, field, limits, unit, help
DTRAIN_FLAG(string, mode, run.mode, OneOf("train | eval | predict | export"), "", "What to do.")
DTRAIN_FLAG(string, input, run.input, Anything(), "",
            "With --mode=predict: folders of images or image files, with commas between them; or a safetensors file with the "
            "tensor images, normalised, N x 3 x H x W, or input_ids, N x T. With --mode=eval: the run's folder, as --run_dir. With --mode=export: a run's folder, a checkpoint or a file of "
            "weights.")
DTRAIN_FLAG(string, output, run.output, Anything(), "",
            "With --mode=predict: FILE.csv or FILE.jsonl for the five likeliest classes of each image, or a safetensors file "
            "for the tensor logits. With --mode=eval of images: a folder for confusion_matrix.csv and class_accuracy.csv "
            "(else the run's). With --mode=export: FILE.safetensors, FILE.pt, or a folder as Hugging Face's "
            "from_pretrained (text) or timm's hub (images) has it.")
DTRAIN_FLAG(bool, dry_run, run.dry_run, Anything(), "", "Resolve and check everything, print the plan, run nothing.")
DTRAIN_FLAG(bool, print_config, run.print_config, Anything(), "", "Print the resolved configuration as JSON and exit.")
DTRAIN_FLAG(string, run_dir, run.dir, Anything(), "",
            "Folder of this run's checkpoints and records; empty: runs/MODEL-DATE-TIME.")
DTRAIN_FLAG(string, resume, run.resume, Anything(), "",
            "auto (the newest valid checkpoint of --run_dir, if any), none (what is in --run_dir moves aside), last (the "
            "newest run of runs/), or a checkpoint's folder.")
DTRAIN_FLAG(string, weights, run.weights, OneOf("last | best | ema"), "",
            "With --mode=eval, predict and export: which of the run's weights; ema also with a file of torch.save's that has both.")
DTRAIN_FLAG(double, save_every_epochs, run.save_every_epochs, AtLeast(0), "epochs",
            "Checkpoint this often; 0: at the end only.")
DTRAIN_FLAG(double, save_every_seconds, run.save_every_seconds, AtLeast(0), "seconds",
            "Checkpoint this often, too; 0: by epochs only.")
DTRAIN_FLAG(int64, keep_checkpoints, run.keep_checkpoints, AtLeast(1), "checkpoints",
            "How many to keep; older ones are deleted.")
DTRAIN_FLAG(double, eval_every_epochs, run.eval_every_epochs, AtLeast(0), "epochs",
            "Evaluate this often; 0: at the end only.")
DTRAIN_FLAG(double, stop_after_epochs_without_gain, run.stop_after_epochs_without_gain, AtLeast(0), "epochs",
            "Early stopping: end the run when so many epochs of training have given no better evaluation (by its first metric); "
            "0: never.")
DTRAIN_FLAG(int64, limit_train_steps, run.limit_train_steps, AtLeast(0), "steps",
            "Train this many steps only, the schedule unchanged; 0: no limit.")
DTRAIN_FLAG(int64, limit_val_steps, run.limit_val_steps, AtLeast(0), "steps",
            "Evaluate on this many batches only; 0: no limit.")

DTRAIN_FLAG(string, data_dir, data.dir, Anything(), "", "Folder (or, for safetensors, file) with the data.")
DTRAIN_FLAG(string, data_format, data.format,
            OneOf("auto | imagefolder | tfrecord | recordio | webdataset | tokens | safetensors | synthetic"), "",
            "Format of the data; auto looks at --data_dir.")
DTRAIN_FLAG(string, train_split, data.train_split, Anything(), "", "Folder or file prefix of the training split.")
DTRAIN_FLAG(string, val_split, data.val_split, Anything(), "", "Folder or file prefix of the validation split.")
DTRAIN_FLAG(double, val_fraction, data.val_fraction, Below(1), "fraction of the samples",
            "Where there is no validation split: this share of the training split becomes one, of each class alike, the same for "
            "the same --seed on any number of ranks; 0: none does.")
DTRAIN_FLAG(int64, workers, data.workers, Between(0, 1024), "threads",
            "Decode threads of each rank; 0: as many as cores it may use.")
DTRAIN_FLAG(int64, prefetch_batches, data.prefetch_batches, Between(1, 1024), "batches",
            "Batches kept ready ahead of the step.")
DTRAIN_FLAG(string, shuffle, data.shuffle, OneOf("global | shard | none"), "",
            "Order of the training samples; shard: neighbours are read together; none: file order.")
DTRAIN_FLAG(string, cache, data.cache, OneOf("none | ram"), "",
            "ram: what was read from storage stays in memory, once for all ranks of a machine, as far as it fits.")
DTRAIN_FLAG(string, decode, data.decode, OneOf("cpu | gpu"), "",
            "Where training images are decoded, cropped and resized; gpu: JPEGs by nvJPEG, what it cannot by the CPU.")
DTRAIN_FLAG(string, last_batch, data.last_batch, OneOf("stream | drop"), "",
            "stream: batches run on across the end of an epoch; drop: each epoch is cut to whole batches.")
DTRAIN_FLAG(double, max_bad_records, data.max_bad_records, Between(0, 1), "fraction of the records",
            "Unreadable records put up with before the run fails.")
DTRAIN_FLAG(bool, strict_data, data.strict, Anything(), "", "Fail at the first unreadable record.")
DTRAIN_FLAG(bool, allow_dataset_change, data.allow_dataset_change, Anything(), "",
            "Resume even though the data set is not the one that the checkpoint was trained on.")
DTRAIN_FLAG(string, label_offset, data.label_offset, Anything(), "",
            "What the first class is called in the data: auto (0, or 1 where labels are exactly 1 to C), or a number.")
DTRAIN_FLAG(string, index_dir, data.index_dir, Anything(), "",
            "Folder for the indexes of the data; empty: beside the data.")

DTRAIN_FLAG(int64, image_size, image.size, Between(1, 8192), "pixels", "Side of the square images that the model sees.")
DTRAIN_FLAG(string, image_size_schedule, image.size_schedule, Anything(), "",
            "EPOCH:SIZE,... : sizes of training images, each from the start of that epoch on, as in 0:160,6:176,12:192; "
            "empty: image_size throughout. Evaluation has image_size.")
DTRAIN_FLAG(int64, eval_resize, image.eval_resize, Between(0, 16384), "pixels",
            "Short side before the central crop in evaluation; 0: image_size / 0.875.")
DTRAIN_FLAG(string, interpolation, image.interpolation, OneOf("bilinear | bicubic"), "",
            "Resampling filter, antialiased.")
DTRAIN_FLAG(string, mean, image.mean, Anything(), "", "Red, green, blue: subtracted from images scaled to 0 to 1.")
DTRAIN_FLAG(string, std, image.std, MoreThan(0), "", "Red, green, blue: what images are divided by then.")
DTRAIN_FLAG(string, augment, image.augment, OneOf("auto | none | basic | randaugment | trivialaugment | autoaugment"), "",
            "basic: random crop and flip, which the last three go on from; auto: basic for image files, none for tensors.")
DTRAIN_FLAG(string, augment_interpolation, image.augment_interpolation, OneOf("nearest | bilinear"), "",
            "What shears, translations and rotations of the last three take between pixels; torchvision's classes nearest, "
            "its training recipes bilinear.")
DTRAIN_FLAG(int64, repeated_augmentation, image.repeated_augmentation, Between(1, 64), "copies",
            "How often a sample comes in a global batch, augmented differently, on as many ranks as there are; an epoch stays "
            "as long.")
DTRAIN_FLAG(string, color_jitter, image.color_jitter, AtLeast(0), "",
            "Strength for brightness, contrast and saturation, or three numbers, or four with hue (up to 0.5).")
DTRAIN_FLAG(double, pca_lighting, image.pca_lighting, AtLeast(0), "standard deviation",
            "AlexNet's lighting noise; 0.1 is usual.")
DTRAIN_FLAG(double, blur, image.blur, Between(0, 1), "probability", "Gaussian blur, sigma 0.1 to 2.")
DTRAIN_FLAG(double, random_erasing, image.random_erasing, Between(0, 1), "probability",
            "A rectangle of 2 to 33 % of the image becomes the mean colour.")
DTRAIN_FLAG(double, mixup, image.mixup, AtLeast(0), "alpha", "Blend each image with another; 0: off.")
DTRAIN_FLAG(double, cutmix, image.cutmix, AtLeast(0), "alpha",
            "Paste a part of another image; with --mixup each batch draws one of them; 0: off.")

DTRAIN_FLAG(int64, tokens_per_sample, text.tokens_per_sample, Between(2, 1 << 20), "tokens",
            "Of a block at most, the <s> in front included; longer ones are left out.")
DTRAIN_FLAG(int64, max_tokens, text.max_tokens, AtLeast(0), "tokens",
            "Blocks x longest of them that a device takes at once; with --batch_size, too: whichever comes first; 0: as many "
            "blocks as --batch_size says.")
DTRAIN_FLAG(string, sample_break, text.sample_break, OneOf("complete | complete_doc | eos | none"), "",
            "Blocks of text: whole lines while they fit; the same within a document; a line each; pieces of the stream.")
DTRAIN_FLAG(double, mask_prob, text.mask_prob, Inside(0, 1), "fraction of the tokens",
            "How many tokens of a block the model is to guess.")
DTRAIN_FLAG(bool, mask_whole_words, text.mask_whole_words, Anything(), "",
            "Mask whole words; the tokenizer's files are beside the data.")
DTRAIN_FLAG(bool, mask_special_tokens, text.mask_special_tokens, Anything(), "",
            "<s> and </s> may be masked, too, as fairseq does.")
DTRAIN_FLAG(int64, vocab_size, text.vocab_size, Between(0, 1 << 24), "tokens",
            "Token ids are below it; 0: as the dictionary of the data (with <mask>), --model_config or --init_weights says.")
DTRAIN_FLAG(bool, unpad, text.unpad, Anything(), "",
            "Compute on tokens alone, not on padding: the same loss, faster where texts are of unequal length.")

DTRAIN_FLAG(string, model, model.name, Anything(), "", "Architecture.")
DTRAIN_FLAG(string, model_config, model.config_file, Anything(), "",
            "With --model=roberta: a Hugging Face config.json that says its shape.")
DTRAIN_FLAG(int64, num_classes, model.num_classes, Between(0, 10'000'000), "classes",
            "Outputs of the classifier; 0: as many as the data has.")
DTRAIN_FLAG(string, init_weights, model.init_weights, Anything(), "",
            "File to start from: safetensors, or torch.save's .pt or .pth (nothing in it is run), with torchvision's, timm's, "
            "Hugging Face's or fairseq's names. Where it knows other classes, the classifier begins anew.")
DTRAIN_FLAG(string, weights_naming, model.weights_naming, OneOf("auto | torchvision | timm | hf | fairseq"), "",
            "Whose names an exported file has; those of --init_weights are recognised, and must be these.")
DTRAIN_FLAG(bool, strict_weights, model.strict_weights, Anything(), "",
            "Refuse --init_weights with missing, extra or misshapen tensors.")
DTRAIN_FLAG(string, freeze, model.freeze, Anything(), "",
            "Modules that do not learn, with commas between them, as in conv1,bn1,layer1 (all that lies in them), or backbone: "
            "everything but the classifier. Their batch normalisation keeps its statistics, too.")
DTRAIN_FLAG(bool, zero_init_residual, model.zero_init_residual, Anything(), "",
            "Start each residual block as the identity.")
DTRAIN_FLAG(bool, channels_last, model.channels_last, Anything(), "",
            "NHWC memory format: the same numbers, faster convolutions.")
DTRAIN_FLAG(bool, fused_norm, model.fused_norm, Anything(), "",
            "On GPUs: batch normalisation, addition and ReLU of a ResNet's training step in one kernel. Gradients arrive "
            "in another order then, which at three ranks or more gives other bits. Unmeasured yet.")

DTRAIN_FLAG(bool, pad_stem, model.pad_stem, Anything(), "",
            "Images get a fourth channel of zeros, which a GPU's first convolution may be faster with; weights stay as "
            "they are. Unmeasured yet.")

DTRAIN_FLAG(double, dropout, model.dropout, Below(1), "probability", "Not given: as the model has it.")
DTRAIN_FLAG(double, attention_dropout, model.attention_dropout, Below(1), "probability",
            "Of attention's weights; not given: as the model has it.")
DTRAIN_FLAG(double, drop_path, model.drop_path, Below(1), "probability",
            "EfficientNet: that a sample passes by the last block, less before (stochastic depth); not given: 0.2.")
DTRAIN_FLAG(double, bn_momentum, model.bn_momentum, Between(0, 1), "",
            "Share of the newest batch in the running statistics of batch normalisation; not given: as the model has it.")
DTRAIN_FLAG(double, bn_eps, model.bn_eps, MoreThan(0), "",
            "Added to the variance in batch normalisation; not given: as the model has it.")
DTRAIN_FLAG(bool, activation_checkpointing, model.activation_checkpointing, Anything(), "",
            "Text: compute each layer again in the backward pass rather than keep what it computed.")

DTRAIN_FLAG(int64, batch_size, batch.batch_size, Between(1, 1'000'000), "samples",
            "Per device and micro-step; not given: derived from --global_batch_size, or 32.")
DTRAIN_FLAG(int64, global_batch_size, batch.global_batch_size, Between(1, 1'000'000'000), "samples",
            "Per optimizer step, all ranks: batch_size x world size x grad_accum_steps.")
DTRAIN_FLAG(int64, grad_accum_steps, batch.grad_accum_steps, Between(1, 1'000'000), "micro-steps",
            "Per optimizer step; not given: derived from --global_batch_size, or 1.")
DTRAIN_FLAG(double, epochs, batch.epochs, MoreThan(0), "epochs", "Passes over the training data; need not be whole.")
DTRAIN_FLAG(int64, max_steps, batch.max_steps, AtLeast(1), "steps",
            "Optimizer steps; with --epochs, whichever comes first.")
DTRAIN_FLAG(int64, seed, batch.seed, AtLeast(0), "", "Of weights, order and augmentation.")

DTRAIN_FLAG(string, optimizer, optimizer.name, OneOf("sgd | adam | adamw | lars | lamb | rmsprop_tf"), "",
            "adam adds the weight decay to the gradient, adamw takes it from the weight; lars and lamb measure each layer's "
            "step by its weights; rmsprop_tf is TensorFlow's.")
DTRAIN_FLAG(double, lr, optimizer.lr, AtLeast(0), "",
            "Peak learning rate; not given: sgd 0.1 per 256 samples of the global batch, adam, adamw and lamb 0.001; lars and "
            "rmsprop_tf have to be told.")
DTRAIN_FLAG(double, lr_base_batch, optimizer.lr_base_batch, AtLeast(0), "samples",
            "The peak becomes lr x global batch / this; 0: no scaling.")
DTRAIN_FLAG(string, lr_scaling, optimizer.lr_scaling, OneOf("linear | sqrt"), "",
            "With --lr_base_batch: sqrt takes the square root of that quotient.")
DTRAIN_FLAG(double, momentum, optimizer.momentum, Below(1), "", "Of sgd, lars and rmsprop_tf.")
DTRAIN_FLAG(bool, nesterov, optimizer.nesterov, Anything(), "", "Nesterov's momentum, of sgd and lars.")
DTRAIN_FLAG(string, adam_betas, optimizer.adam_betas, Below(1), "",
            "Of Adam and LAMB: decay of the averages of gradients and of their squares.")
DTRAIN_FLAG(double, adam_eps, optimizer.adam_eps, AtLeast(0), "",
            "Of Adam and LAMB: added to the root of the squares.")
DTRAIN_FLAG(double, lars_trust, optimizer.lars_trust, MoreThan(0), "",
            "Of LARS: a layer's step as a share of its weights, at a learning rate of 1.")
DTRAIN_FLAG(double, rmsprop_alpha, optimizer.rmsprop_alpha, Below(1), "",
            "Of rmsprop_tf: decay of the average of squares, which begins with 1.")
DTRAIN_FLAG(double, rmsprop_eps, optimizer.rmsprop_eps, AtLeast(0), "",
            "Of rmsprop_tf: added to the squares under the root.")
DTRAIN_FLAG(double, backbone_lr_factor, optimizer.backbone_lr_factor, MoreThan(0), "",
            "What the learning rate of everything but the classifier is multiplied by; 0.1 is usual after --init_weights.")
DTRAIN_FLAG(double, weight_decay, optimizer.weight_decay, AtLeast(0), "", "L2 penalty on the weights.")
DTRAIN_FLAG(bool, decay_norm_and_bias, optimizer.decay_norm_and_bias, Anything(), "",
            "Weight decay for normalisation layers and biases, too; lars and lamb then adapt them as well, and do neither "
            "where this is not given.")
DTRAIN_FLAG(double, clip_norm, optimizer.clip_norm, AtLeast(0), "",
            "Greatest L2 norm of all gradients together; 0: no clipping.")
DTRAIN_FLAG(int64, max_skipped_steps, optimizer.max_skipped_steps, AtLeast(1), "steps",
            "Give up after so many steps in a row were skipped because their gradients were not finite.")
DTRAIN_FLAG(double, label_smoothing, optimizer.label_smoothing, Below(1), "",
            "Share of the target spread over all classes.")
DTRAIN_FLAG(string, loss, optimizer.loss, OneOf("ce | bce"), "",
            "Of images: cross entropy, or binary cross entropy, each class a question of its own, their mean.")
DTRAIN_FLAG(double, ema_decay, optimizer.ema_decay, Below(1), "",
            "Keep a moving average of the weights, evaluated beside them: this share of it stays at each update, and less at "
            "first: (1 + n) / (10 + n) at the n-th; 0: none is kept.")
DTRAIN_FLAG(int64, ema_every, optimizer.ema_every, AtLeast(1), "steps", "Between two updates of that average.")

DTRAIN_FLAG(string, lr_schedule, schedule.name, OneOf("poly | cosine | step | exponential | constant"), "",
            "Shape of the learning rate after the warmup.")
DTRAIN_FLAG(double, warmup_epochs, schedule.warmup_epochs, AtLeast(0), "epochs", "Linear warmup; or --warmup_steps.")
DTRAIN_FLAG(int64, warmup_steps, schedule.warmup_steps, AtLeast(0), "steps", "Linear warmup; or --warmup_epochs.")
DTRAIN_FLAG(double, warmup_start_lr, schedule.warmup_start_lr, AtLeast(0), "",
            "Learning rate of the first step of the warmup, absolute.")
DTRAIN_FLAG(double, poly_power, schedule.poly_power, MoreThan(0), "", "Exponent of the poly schedule.")
DTRAIN_FLAG(double, end_lr, schedule.end_lr, AtLeast(0), "", "Learning rate at the end of the schedule, absolute.")
DTRAIN_FLAG(double, lr_decay_factor, schedule.decay_factor, MoreThan(0), "",
            "step, exponential: what the rate is multiplied by.")
DTRAIN_FLAG(string, lr_decay_epochs, schedule.decay_epochs, MoreThan(0), "epochs",
            "step, exponential: how often; step with several numbers, as in 30,60,80: at these.")
DTRAIN_FLAG(bool, schedule_through_warmup, schedule.through_warmup, Anything(), "",
            "The schedule begins with the run, hidden by the warmup at first, as in timm and TensorFlow; else after it.")
DTRAIN_FLAG(int64, schedule_steps, schedule.schedule_steps, AtLeast(1), "steps",
            "Length of the schedule; not given: that of the run.")

DTRAIN_FLAG(string, precision, precision.name, OneOf("fp32 | tf32 | fp16 | bf16"), "",
            "Of forward and backward; the weights stay fp32 (but see --memory_efficient_fp16). tf32: fp32 with rounded inputs of products, on GPUs.")
DTRAIN_FLAG(string, loss_scale, precision.loss_scale, Anything(), "",
            "What the loss is multiplied by for backward: a number, or dynamic (with fp16: grows and backs off).")
DTRAIN_FLAG(int64, loss_scale_window, precision.loss_scale_window, AtLeast(1), "steps",
            "dynamic: good steps in a row before the loss scale doubles; not given: 2000, for text 2^14 / (ranks x "
            "accumulation) as in fairseq.")
DTRAIN_FLAG(bool, memory_efficient_fp16, precision.memory_efficient_fp16, Anything(), "",
            "Text, with fp16 and Adam: weights, gradients and moments in half precision too, the update in fp32.")

DTRAIN_FLAG(string, nproc_per_node, ranks.nproc_per_node, Anything(), "ranks",
            "Local ranks to start: a number, or auto (one per GPU, or one); empty: one.")
DTRAIN_FLAG(string, nnodes, ranks.nnodes, Anything(), "machines",
            "Machines of the run: with --node_rank what is started here, else what the launcher must have started.")
DTRAIN_FLAG(int64, node_rank, ranks.node_rank, Between(0, 999'999), "",
            "This machine among --nnodes; needs --master_addr. Its local ranks are started here.")
DTRAIN_FLAG(int64, max_restarts, ranks.max_restarts, Between(0, 1'000'000), "restarts",
            "How often the local ranks that were started here are started again after a failure.")
DTRAIN_FLAG(int64, rank, ranks.rank, Between(0, 999'999), "", "This process among all; needs --world_size.")
DTRAIN_FLAG(int64, world_size, ranks.world_size, Between(1, 1'000'000), "ranks",
            "Processes of the run; above 1 needs --master_addr and --master_port.")
DTRAIN_FLAG(int64, local_rank, ranks.local_rank, Between(0, 999'999), "", "This process on its machine: picks the GPU.")
DTRAIN_FLAG(string, master_addr, ranks.master_addr, Anything(), "", "Host of rank 0.")
DTRAIN_FLAG(int64, master_port, ranks.master_port, Between(1, 65535), "", "Port that rank 0 listens on.")
DTRAIN_FLAG(string, backend, ranks.backend, OneOf("auto | nccl | gloo"), "",
            "Collectives; auto: nccl on GPUs, gloo on CPUs.")
DTRAIN_FLAG(double, bucket_cap_mb, ranks.bucket_cap_mb, MoreThan(0), "MiB",
            "Size of the gradient buckets that are reduced while backward runs.")
DTRAIN_FLAG(string, grad_compression, ranks.grad_compression, OneOf("none | fp16 | bf16"), "",
            "What gradients travel as between ranks: half the bytes, and fewer digits.")
DTRAIN_FLAG(bool, static_graph, ranks.static_graph, Anything(), "",
            "Every step uses the same parameters; those that the first does not use stay as they are, rather than being "
            "an error.")
DTRAIN_FLAG(bool, sync_bn, ranks.sync_bn, Anything(), "", "Batch normalisation over the batches of all ranks.")
DTRAIN_FLAG(string, deterministic, ranks.deterministic, OneOf("off | run"), "",
            "run: on GPUs, too, the same run gives the same bits, resumed or not; slower: no algorithm is chosen by time.")
DTRAIN_FLAG(int64, cudnn_benchmark_limit, ranks.cudnn_benchmark_limit, Between(0, 1000), "algorithms",
            "How many cuDNN times for each convolution to find the fastest; 0: all.")
DTRAIN_FLAG(string, cuda_graphs, ranks.cuda_graphs, OneOf("off | on | auto"), "",
            "on: one GPU's training step is recorded once and then started as a whole; the learning rate is rounded to "
            "float32. auto: where it can be. Unmeasured yet.")
DTRAIN_FLAG(string, run_token, ranks.run_token, Anything(), "",
            "The run's secret, the same on all ranks: without it nobody joins. Others see command lines: DTRAIN_RUN_TOKEN "
            "in the environment says it, too.")
DTRAIN_FLAG(double, init_timeout, ranks.init_timeout_seconds, MoreThan(0), "seconds",
            "How long ranks wait for each other at the start.")
DTRAIN_FLAG(double, comm_timeout, ranks.comm_timeout_seconds, MoreThan(0), "seconds",
            "How long a rank may hold up the others before it counts as lost.")

DTRAIN_FLAG(string, log_format, report.log_format, OneOf("auto | bar | table | json"), "",
            "Console output; auto and bar: a bar on a terminal, plain lines elsewhere.")
DTRAIN_FLAG(int64, log_interval, report.log_interval, AtLeast(1), "steps", "Between two lines.")
DTRAIN_FLAG(bool, clear_log, report.clear_log, Anything(), "", "Start metrics.jsonl anew on a first attempt.")
DTRAIN_FLAG(bool, tensorboard, report.tensorboard, Anything(), "",
            "Write events for TensorBoard to the run directory: tensorboard --logdir=RUN_DIR, or that of several runs.")
DTRAIN_FLAG(string, profile_steps, report.profile_steps, Anything(), "",
            "FIRST:LAST, counted from 1: write a Chrome trace of these steps to RUN_DIR/profile, and print where their time "
            "goes; empty: none.")
DTRAIN_FLAG(int64, metrics_port, report.metrics_port, Between(0, 65535), "",
            "Serve Prometheus' metrics on this port of rank 0, at /metrics; 0: no.")
DTRAIN_FLAG(string, metrics_address, report.metrics_address, Anything(), "",
            "Address that --metrics_port listens on; 0.0.0.0, and :: with IPv6: all of the machine's, for everyone who reaches it.")
DTRAIN_FLAG(string, metrics_file, report.metrics_file, Anything(), "",
            "Write the same metrics to this file every ten seconds, for node-exporter's textfile collector (NAME.prom).")
// clang-format on

namespace dtrain::config {

const std::vector<Flag>& Flags() { return MutableFlags(); }

bool WasGiven(const Config& config, const std::string& name) {
  return std::find(config.given.begin(), config.given.end(), name) != config.given.end();
}

bool Set(const Flag& flag, const std::string& text, Config& config) {
  const gflags::FlagSaver saver;
  return !gflags::SetCommandLineOption(flag.name.c_str(), text.c_str()).empty() && flag.store(config);
}

const Flag* FindFlag(const std::string& name) {
  for (const Flag& flag : Flags()) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

}  // namespace dtrain::config
