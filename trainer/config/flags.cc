// Declares every flag once. DTRAIN_FLAG defines a flag with gflags and adds it to the table; config.h has its default,
// and its section is the struct of its field. FLAGS_ variables exist in this file only, so that no other code depends
// on a global.
#include "trainer/config/flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "data/formats/table_writer.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/choices.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

std::vector<Flag>& MutableFlags() {
  static std::vector<Flag> flags;
  return flags;
}

bool Add(Flag flag, const char* member) {
  flag.section = std::string(member).substr(0, std::string(member).find('.'));
  const auto section = std::ranges::find(Sections(), flag.section, &Section::name);
  if (flag.traits.used_by == 0) flag.traits.used_by = section->used_by;
  flag.traits.changes_no_result |= section->changes_no_result;
  flag.traits.of_training &= section->of_training && !flag.traits.changes_no_result;
  if (!flag.limits.descriptions.empty()) flag.help += " " + flag.limits.descriptions + ".";
  MutableFlags().push_back(std::move(flag));
  return true;
}

constexpr auto kRead = data::PathUse::kRead, kWritten = data::PathUse::kWritten;

// The limits that a flag can have.
Limits Anything() { return {}; }
Limits AtLeast(double minimum) { return {.minimum = minimum}; }
Limits MoreThan(double minimum) { return {.minimum = minimum, .minimum_excluded = true}; }
Limits Between(double minimum, double maximum) { return {.minimum = minimum, .maximum = maximum}; }
Limits Inside(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum, .minimum_excluded = true, .maximum_excluded = true};
}
Limits Below(double maximum) { return {.minimum = 0, .maximum = maximum, .maximum_excluded = true}; }
Limits Numbers(size_t count, Limits each) {
  each.count = count;
  return each;
}
// Two numbers above 0, a least and a greatest one.
Limits Range(double maximum) {
  return {.minimum = 0, .maximum = maximum, .minimum_excluded = true, .count = 2, .is_ascending = true};
}
Limits OneOf(const std::vector<Choice>& choices) {
  Limits limits{.descriptions = Described(choices)};
  for (const Choice& choice : choices) limits.choices.push_back(choice.name);
  return limits;
}
Limits OneOf(const std::vector<Choice>& choices, bool (*also)(const std::string& text), const std::string& also_text) {
  Limits limits = OneOf(choices);
  limits.also = also;
  limits.also_text = also_text;
  return limits;
}
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
  const auto numbers = NumberListFrom(flag);
  if (numbers) field = *numbers;
  return numbers.has_value();
}

// What flags need beside them.
constexpr Companion kLabelsTable = {"--labels=TABLE", "folders of images have no columns", [](const Config& config) {
                                      return !config.data.labels.empty() || !TaskHas(config.run.task, kImages);
                                    }};
constexpr Companion kMixing = {"--mixup or --cutmix", "without them no image is mixed",
                               [](const Config& config) { return config.image.mixup > 0 || config.image.cutmix > 0; }};
constexpr Companion kNativeCrop = {"--crop=native", "",
                                   [](const Config& config) { return config.image.crop != "resized"; }};
constexpr Companion kResizedCrop = {"--crop=resized", "",
                                    [](const Config& config) { return config.image.crop == "resized"; }};
constexpr Companion kTeacher = {"--teacher", "without it nothing is learned but the labels",
                                [](const Config& config) { return !config.teacher.weights.empty(); }};
constexpr Companion kElastic = {"--deterministic=elastic", "other runs divide the batch among the ranks", IsElastic};
constexpr Companion kWatchedLosses = {"--spike_factor", "without it losses are not watched; 6 is rare in a healthy run",
                                      [](const Config& config) { return config.optimizer.spike_factor != 0; }};
constexpr Companion kBinaryLoss = {"--loss=bce", "the cross entropy has no questions of single classes",
                                   [](const Config& config) { return config.optimizer.loss == "bce"; }};
constexpr Companion kAverage = {"--ema_decay", "without it no average of the weights is kept",
                                [](const Config& config) { return config.optimizer.ema_decay != 0; }};

}  // namespace
}  // namespace dtrain::config

// `member` is the field's path in Config.
#define DTRAIN_FLAG(type, name, member, limits, unit, text, ...)                                        \
  DEFINE_##type(name, dtrain::config::GflagsDefault(dtrain::config::Config().member), "");              \
  namespace dtrain::config {                                                                            \
  [[maybe_unused]] static const bool added_##name =                                                     \
      Add({#name, "", KindOf<decltype(Config().member)>(), limits, unit, text,                          \
           [](const Config& config) { return ToValue(config.member); },                                 \
           [](Config& config) { return Store(config.member, FLAGS_##name); }, FlagTraits{__VA_ARGS__}}, \
          #member);                                                                                     \
  }

// clang-format off
// type, name, field, limits, unit, help, what else is known of it (FlagTraits)
DTRAIN_FLAG(string, mode, run.mode, OneOf("train | eval | predict | export"), "",
            "Whether to train, to evaluate, to predict or to export weights.", .changes_no_result = true)
DTRAIN_FLAG(string, task, run.task, OneOf(TaskChoices()), "", "What the model learns, or has learned.",
            .kept_with_weights = true)
DTRAIN_FLAG(string, input, run.input, Anything(), "",
            "With --mode=predict: folders of images or image files, separated by commas; or a safetensors file with "
            "the tensor images (normalised, N x 3 x H x W) or input_ids (N x T); or texts in FILE.tsv, FILE.csv, "
            "FILE.jsonl or FILE.txt. With --mode=eval: the run's folder, as with --run_dir. With --mode=export: a run's folder, as with --run_dir, a checkpoint or a file of weights.",
            .changes_no_result = true, .path = kRead)
DTRAIN_FLAG(string, output, run.output, Anything(), "",
            "With --mode=predict: " + data::TableFiles() + " for the five most likely classes of each image, or the "
            "prediction for each text; or a safetensors file for the tensor logits. With --mode=eval: a folder for confusion_matrix.csv "
            "and class_accuracy.csv; empty: the run's folder. With --mode=export: FILE.safetensors, FILE.pt, or a "
            "folder that Hugging Face's from_pretrained (text) or timm (images) can load.",
            .changes_no_result = true, .path = kWritten)
DTRAIN_FLAG(string, predictions, run.predictions, Anything(), "",
            "With --mode=eval: " + data::TableFiles() + " for the label, the prediction, the probabilities and the loss of "
            "each evaluated image or sentence, of several sets in FILE-SET.csv. scripts/report.py shows the worst mistakes in it.",
            .used_by = kLabels, .changes_no_result = true, .path = kWritten)
DTRAIN_FLAG(string, features, run.features, Anything(), "",
            "With --mode=predict, in place of --output: FILE.npy or FILE.safetensors for what the classifier sees of each "
            "image (N x C), or the encoder's output for the first token, <s>, of each text (N x H), float32; FILE.jsonl names "
            "the rows.",
            .changes_no_result = true, .path = kWritten)
DTRAIN_FLAG(bool, csv_bom, run.csv_bom, Anything(), "",
            "Begin the CSV files of --output and --predictions with a byte order mark. For whoever opens them with Excel, which "
            "takes them for Windows-1252 otherwise; other programs need none.", .changes_no_result = true)
DTRAIN_FLAG(bool, dry_run, run.dry_run, Anything(), "",
            "Resolve and check the whole configuration, print the plan, and exit without running it.",
            .changes_no_result = true)
DTRAIN_FLAG(string, defaults_of, run.defaults_of, OneOf(DefaultsToTake()), "",
            "Whose defaults count where the command is silent. auto: those of the program that alone has a flag that was "
            "typed; none: dtrain's.")
DTRAIN_FLAG(bool, print_config, run.print_config, Anything(), "", "Print the resolved configuration as JSON and exit.",
            .changes_no_result = true)
DTRAIN_FLAG(string, run_dir, run.dir, Anything(), "",
            "Folder for this run's checkpoints and records; empty: runs/MODEL-DATE-TIME.", .own_to_each_rank = true,
            .changes_no_result = true, .path = kWritten)
DTRAIN_FLAG(string, resume, run.resume, Anything(), "",
            "Where to resume from: auto (the newest valid checkpoint in --run_dir, if any), none (start anew; the "
            "files of an earlier run in --run_dir are moved aside), last (the newest run in runs/), or the path of a "
            "checkpoint or a run (that of another run moves the files in --run_dir aside, too).",
            .changes_no_result = true, .path = kRead)
DTRAIN_FLAG(string, weights, run.weights, OneOf("auto | last | best | ema"), "",
            "With --mode=eval, predict and export: which of the run's weights to use; auto: the best if the run has "
            "validated, else the last. ema also works with a torch.save file that holds an average beside the "
            "weights.", .changes_no_result = true)
DTRAIN_FLAG(double, save_every_epochs, run.save_every_epochs, AtLeast(0), "epochs",
            "Interval between checkpoints; 0: no checkpoints by epochs. There is always one at the end.",
            .changes_no_result = true)
DTRAIN_FLAG(int64, save_every_steps, run.save_every_steps, AtLeast(0), "steps",
            "Steps between checkpoints, in addition to --save_every_epochs; 0: off.", .changes_no_result = true)
DTRAIN_FLAG(string, save_every_seconds, run.save_every_seconds, Anything(), "seconds",
            "Time between checkpoints, in addition to --save_every_epochs; 0: off; auto: the time with which saves and "
            "faults together cost the least, by what saves take in this run and --expected_hours_between_faults.",
            .changes_no_result = true)
DTRAIN_FLAG(double, expected_hours_between_faults, run.expected_hours_between_faults, MoreThan(0), "hours",
            "With --save_every_seconds=auto: the mean time between faults of the whole job, all machines together.",
            .changes_no_result = true)
DTRAIN_FLAG(int64, keep_checkpoints, run.keep_checkpoints, AtLeast(1), "checkpoints",
            "Number of newest checkpoints to keep; older ones are deleted.", .changes_no_result = true)
DTRAIN_FLAG(double, eval_every_epochs, run.eval_every_epochs, AtLeast(0), "epochs",
            "Interval between evaluations; 0: only at the end.")
DTRAIN_FLAG(int64, eval_every_steps, run.eval_every_steps, AtLeast(0), "steps",
            "Steps between evaluations, in addition to --eval_every_epochs; 0: off.")
DTRAIN_FLAG(string, best_metric, run.best_metric, Anything(), "",
            "The metric of the validation that decides which weights are the best, such as f1 for --task="
            "text_classification; auto: the task's own.")
DTRAIN_FLAG(double, stop_after_epochs_without_gain, run.stop_after_epochs_without_gain, AtLeast(0), "epochs",
            "Early stopping: end the run if the metric that decides (--best_metric) has not improved for this many epochs; 0: "
            "off.")
DTRAIN_FLAG(int64, limit_train_steps, run.limit_train_steps, AtLeast(0), "steps",
            "Stop after this many steps, without changing the learning rate schedule; 0: no limit.")
DTRAIN_FLAG(int64, limit_val_steps, run.limit_val_steps, AtLeast(0), "steps",
            "Evaluate as many samples only as this many global batches hold, spread evenly over the split; 0: all.")

DTRAIN_FLAG(double, max_hours, run.max_hours, AtLeast(0), "hours",
            "Save and exit with 75, as after a signal, this long after the start; for jobs with a limit that nothing tells the "
            "program. Not given: three minutes before the end that Slurm tells (SLURM_JOB_END_TIME); 0: never.",
            .own_to_each_rank = true)

DTRAIN_FLAG(string, data_dir, data.dir, Anything(), "", "Folder with the data; for safetensors also a file.",
            .own_to_each_rank = true, .of_training = false, .path = kRead)
DTRAIN_FLAG(string, labels, data.labels, Anything(), "",
            "FILE.csv, FILE.tsv or FILE.jsonl that names images and their labels, an image a row, in place of folders of "
            "classes. Names of images are paths below --data_dir or, without that, below the table's own folder.",
            .used_by = kImages, .own_to_each_rank = true, .of_training = false, .path = kRead)
DTRAIN_FLAG(string, image_column, data.image_column, Anything(), "",
            "With --labels: column of the image's name, by its own name or its number from 0; empty: found by its name (image, "
            "path, file, filename, image_path, file_name …).", .used_by = kImages, .kept_with_weights = true,
            .companion = &kLabelsTable)
DTRAIN_FLAG(string, label_column, data.label_column, Anything(), "",
            "Column of the label in files of sentences and in --labels, likewise; empty: found by its name. Several with commas "
            "between them for several labels or numbers.", .used_by = kSentences | kImages, .kept_with_weights = true,
            .companion = &kLabelsTable)
DTRAIN_FLAG(string, split_column, data.split_column, Anything(), "",
            "With --labels: column that says which split an image is in (train, val, test …); empty: `split`, if there is one, "
            "else all images are of the training split.", .used_by = kImages, .kept_with_weights = true,
            .companion = &kLabelsTable)
DTRAIN_FLAG(string, label_separator, data.label_separator, Anything(), "",
            "What is between several labels in the column of labels; empty: --label_column names a column for each label, "
            "with commas between them, which is 1 where the label holds, else 0; or JSON lines have lists of labels.",
            .used_by = kSeveralLabels, .kept_with_weights = true)
DTRAIN_FLAG(double, label_threshold, data.label_threshold, Between(0.001, 0.999), "",
            "Probability from which a label is predicted, for metrics and predictions.", .used_by = kSeveralLabels,
            .kept_with_weights = true)
DTRAIN_FLAG(string, group_column, data.group_column, Anything(), "",
            "Column, by its name or its number: rows that have the same there are held out together. For whoever has several "
            "texts of one author or photographs of one thing.", .used_by = kSentences | kImages, .same_on_resume = true,
            .companion = &kLabelsTable)
DTRAIN_FLAG(string, csv_delimiter, data.csv_delimiter, OneOf("auto | comma | semicolon | tab"), "",
            "What separates the cells of .csv files; auto: what their first line has most of. For whoever has a table whose "
            "names of columns contain such characters.", .used_by = kSentences | kImages, .of_training = false)
DTRAIN_FLAG(string, data_format, data.format, OneOf(DataFormats()), "", "Format of the data.")
DTRAIN_FLAG(string, train_split, data.train_split, Anything(), "", "Folder or file prefix of the training split.")
DTRAIN_FLAG(string, val_split, data.val_split, Anything(), "",
            "Folder or file prefix of the validation split; or several with commas between them, of which the first "
            "one decides which weights are the best.")
DTRAIN_FLAG(double, val_fraction, data.val_fraction, Below(1), "fraction of the samples",
            "If there is no validation split: the fraction of the training split, in each class alike, to validate "
            "on instead of training on it; --split_seed selects which. 0: no validation.", .same_on_resume = true)
DTRAIN_FLAG(int64, split_seed, data.split_seed, AtLeast(0), "",
            "Selects the samples of --val_fraction, on any number of ranks; --seed does not, so that runs with other seeds "
            "are compared on the same samples. For whoever asks how much the choice of these samples matters.",
            .same_on_resume = true)
DTRAIN_FLAG(string, val_fold, data.val_fold, Anything(), "",
            "I/K: hold out the I-th of K parts of the training split instead of --val_fraction, as scripts/cross_validate.py "
            "does in turn; each sample is in one part. For whoever has too few samples to give any away.",
            .same_on_resume = true)
DTRAIN_FLAG(string, group_pattern, data.group_pattern, Anything(), "",
            "A regular expression for the names of image files (CLASS/NAME): files whose first bracketed part, or whole match, "
            "is equal are held out together, as in '(patient[0-9]+)'. For whoever has several photographs of one thing.",
            .used_by = kImages, .same_on_resume = true)
DTRAIN_FLAG(int64, workers, data.workers, Between(0, 1024), "threads",
            "Decoding threads per rank; 0: one per core that the rank may use.",
            .own_to_each_rank = true, .of_training = false)
DTRAIN_FLAG(int64, prefetch_batches, data.prefetch_batches, Between(1, 1024), "batches",
            "Number of batches to prepare ahead of the training step.", .of_training = false)
DTRAIN_FLAG(string, shuffle, data.shuffle, OneOf("global | shard | none"), "",
            "Order of the training samples. global: all are shuffled; shard: chunks of neighbouring samples are "
            "shuffled, for storage that reads neighbours faster; none: file order.", .same_on_resume = true)
DTRAIN_FLAG(string, sampling, data.sampling, OneOf("natural | balanced"), "",
            "natural: each training sample once an epoch; balanced: each class equally often, so that samples of small "
            "classes are repeated, with an augmentation of their own each time.",
            .used_by = kClasses, .same_on_resume = true)
DTRAIN_FLAG(string, cache, data.cache, OneOf("none | ram"), "",
            "ram: keep the encoded samples in memory after the first read, shared by all ranks of a machine, as far "
            "as memory allows.", .of_training = false)
DTRAIN_FLAG(string, last_batch, data.last_batch, OneOf("stream | drop"), "",
            "stream: a batch may span the end of an epoch; drop: each epoch is cut to whole batches.",
            .same_on_resume = true)
DTRAIN_FLAG(double, max_bad_records, data.max_bad_records, Between(0, 1), "fraction of the records",
            "Greatest share of unreadable records of a split that the run tolerates before it fails. Not given: 1 in 10,000, and "
            "in a small set a few (10; of fewer than 200 one in 20). Each start of a run counts anew.",
            .of_training = false)
DTRAIN_FLAG(bool, strict_data, data.strict, Anything(), "", "Fail at the first unreadable record.",
            .of_training = false)
DTRAIN_FLAG(bool, allow_dataset_change, data.allow_dataset_change, Anything(), "",
            "Resume even if the data set differs from the one that the checkpoint was trained on.",
            .of_training = false)
DTRAIN_FLAG(string, label_offset, data.label_offset, Anything(), "",
            "Label of the first class in the data: a number, or auto (1 if the labels are exactly 1 to C, else 0).",
            .used_by = kImages)
DTRAIN_FLAG(string, index_dir, data.index_dir, Anything(), "",
            "Folder for index files of the data; empty: beside the data.",
            .own_to_each_rank = true, .of_training = false, .changes_no_result = true, .path = kWritten)

DTRAIN_FLAG(int64, image_size, image.size, Between(1, 8192), "pixels",
            "Side of the square images that the model sees; not given: the model's native size.",
            .kept_with_weights = true)
DTRAIN_FLAG(int64, eval_image_size, image.eval_size, Between(0, 8192), "pixels",
            "The same in evaluation, prediction and export; 0: --image_size.", .kept_with_weights = true)
DTRAIN_FLAG(string, image_size_schedule, image.size_schedule, Anything(), "",
            "EPOCH:SIZE,...: sizes of training images in pixels, each in force from the start of its epoch, as in "
            "0:160,6:176,12:192; empty: --image_size throughout. Evaluation uses --eval_image_size.",
            .same_on_resume = true, .needs_crops = true)
DTRAIN_FLAG(int64, eval_resize, image.eval_resize, Between(0, 16384), "pixels",
            "In evaluation, resize the short side of images to this before the central crop; 0: the evaluated size / "
            "0.875.", .also_off = {"256"}, .kept_with_weights = true)
DTRAIN_FLAG(string, interpolation, image.interpolation, OneOf("bilinear | bicubic | random"), "",
            "Filter for resizing images, always antialiased; random: each training image draws one of the two, and "
            "evaluation takes bicubic.", .kept_with_weights = true)
DTRAIN_FLAG(string, eval_interpolation, image.eval_interpolation, OneOf("auto | bilinear | bicubic"), "",
            "Filter for resizing images in evaluation; auto: that of --interpolation.", .kept_with_weights = true)
DTRAIN_FLAG(bool, exif_orientation, image.exif_orientation, Anything(), "",
            "Turn photographs upright as their EXIF orientation says. --noexif_orientation: use them as they are stored, "
            "as torchvision's reader does. A run keeps what it began with; other programs' commands (--defaults_of) bring "
            "--noexif_orientation.", .also_off = {"false"}, .kept_with_weights = true)
DTRAIN_FLAG(string, mean, image.mean, Numbers(3, Anything()), "",
            "Mean of each colour channel (R,G,B), which is subtracted from images scaled to 0 to 1.",
            .kept_with_weights = true)
DTRAIN_FLAG(string, std, image.std, Numbers(3, MoreThan(0)), "",
            "Standard deviation of each colour channel (R,G,B), by which images are divided after --mean is "
            "subtracted.", .kept_with_weights = true)
DTRAIN_FLAG(string, augment, image.augment, OneOf(Augmentations(), IsTimmAugmentation, "timm's rand, augmix, original, "
            "originalr, v0 or v0r with its settings"), "",
            "Augmentation of training images. timm's have its operators and settings: rand-m9-n2-mstd0.5-inc1, "
            "augmix-m5-w4, original-mstd0.5.")
DTRAIN_FLAG(string, augment_interpolation, image.augment_interpolation, OneOf("nearest | bilinear"), "",
            "Interpolation for the shears, translations and rotations of randaugment, trivialaugment and "
            "autoaugment. torchvision's classes default to nearest; its training recipes use bilinear.")
DTRAIN_FLAG(string, crop, image.crop, OneOf(Crops()), "",
            "How images are cropped.", .kept_with_weights = true)
DTRAIN_FLAG(string, native_scale, image.native_scale, Range(16), "",
            "With --crop=native or native_centre: least and greatest factor by which training images are scaled first, without "
            "antialiasing.", .needs_crops = true, .companion = &kNativeCrop)
DTRAIN_FLAG(string, crop_scale, image.crop_scale, Range(1), "",
            "Least and greatest part of an image's area that a random crop has.", .needs_crops = true,
            .companion = &kResizedCrop)
DTRAIN_FLAG(string, crop_ratio, image.crop_ratio, Range(std::numeric_limits<double>::infinity()), "",
            "Least and greatest width of a random crop as a multiple of its height.", .needs_crops = true,
            .companion = &kResizedCrop)
DTRAIN_FLAG(double, hflip, image.hflip, Between(0, 1), "probability", "Probability that a random crop is mirrored.",
            .also_off = {"0"}, .needs_crops = true)
DTRAIN_FLAG(int64, repeated_augmentation, image.repeated_augmentation, Between(1, 64), "copies",
            "Number of differently augmented copies of each sample in a global batch, spread over the ranks. The "
            "length of an epoch does not change.", .same_on_resume = true, .shown = "repeated")
DTRAIN_FLAG(string, color_jitter, image.color_jitter, AtLeast(0), "",
            "Strength of random colour changes: one number for brightness, contrast and saturation, or three "
            "numbers, or four with hue (up to 0.5); 0: off.", .also_off = {"0,0,0", "0,0,0,0"}, .needs_crops = true,
            .shown = "color jitter")
DTRAIN_FLAG(string, hls_jitter, image.hls_jitter, Numbers(3, Between(0, 255)), "",
            "Most that is added to hue (of 180), lightness and saturation (of 255) of a training image, as MXNet draws it; "
            "0,0,0: off.", .needs_crops = true, .shown = "HLS jitter")
DTRAIN_FLAG(double, pca_lighting, image.pca_lighting, AtLeast(0), "standard deviation",
            "Strength of AlexNet's lighting noise; usually 0.1; 0: off.", .needs_crops = true, .shown = "PCA lighting")
DTRAIN_FLAG(double, blur, image.blur, Between(0, 1), "probability", "Probability of a Gaussian blur of sigma 0.1 to 2.",
            .needs_crops = true, .shown = "blur")
DTRAIN_FLAG(double, random_erasing, image.random_erasing, Between(0, 1), "probability",
            "Probability that a rectangle of 2 to 33 % of the image is erased.", .needs_crops = true,
            .shown = "random erasing")
DTRAIN_FLAG(string, erasing, image.erasing, OneOf(Erasings()), "",
            "What --random_erasing puts into a rectangle.", .also_off = {"const", "rand", "pixel"})
DTRAIN_FLAG(int64, erasing_count, image.erasing_count, Between(1, 64), "rectangles",
            "The most that --random_erasing erases of an image; their number is drawn, and they share the area.")
DTRAIN_FLAG(double, mixup, image.mixup, AtLeast(0), "alpha",
            "Blend each image with another one of its batch, by a share drawn from Beta(alpha, alpha); 0: off.",
            .shown = "mixup")
DTRAIN_FLAG(double, cutmix, image.cutmix, AtLeast(0), "alpha",
            "Replace a part of each image by that of another one of its batch, with an area drawn from Beta(alpha, "
            "alpha); 0: off. With --mixup, each batch draws one of the two.", .shown = "cutmix")
DTRAIN_FLAG(double, mix_prob, image.mix_prob, Between(0, 1), "probability",
            "Probability that --mixup or --cutmix mixes a batch.")
DTRAIN_FLAG(double, mix_switch_prob, image.mix_switch_prob, Between(0, 1), "probability",
            "Probability that CutMix mixes it, with both of them.")
DTRAIN_FLAG(double, mix_epochs, image.mix_epochs, AtLeast(0), "epochs",
            "Mix images in these first epochs only, so that the last ones train on images as they are; 0: in all.",
            .companion = &kMixing)

DTRAIN_FLAG(int64, tokens_per_sample, text.tokens_per_sample, Between(2, 1 << 20), "tokens",
            "Greatest length of a block of text, including the <s> in front; longer blocks are left out. The default is "
            "lower if the model has fewer positions.", .same_on_resume = true, .kept_with_weights = true)
DTRAIN_FLAG(int64, max_tokens, text.max_tokens, AtLeast(0), "tokens",
            "Greatest size of a batch on one device: its blocks times the longest of them. If --batch_size is given, "
            "both limits hold. 0: --batch_size alone decides.", .same_on_resume = true)
DTRAIN_FLAG(string, sample_break, text.sample_break, OneOf("complete | complete_doc | eos | none | joined | lines"), "",
            "How text is cut into blocks. complete: as many whole lines as fit; complete_doc: the same, within one "
            "document; eos: one line per block; none: pieces of the stream, regardless of lines. As transformers' run_mlm.py: "
            "joined: lines between <s> and </s>, one after another, cut into pieces of whole length; lines (--line_by_line): one "
            "line per block, whose end is cut if it is too long.",
            .used_by = kMaskedWords, .same_on_resume = true, .kept_with_weights = true)
DTRAIN_FLAG(double, mask_prob, text.mask_prob, Inside(0, 1), "fraction of the tokens",
            "Share of a block's tokens that the model has to guess.", .used_by = kMaskedWords, .kept_with_weights = true)
DTRAIN_FLAG(bool, mask_whole_words, text.mask_whole_words, Anything(), "",
            "Mask whole words instead of tokens. Needs the tokenizer's files beside the data.",
            .used_by = kMaskedWords, .kept_with_weights = true)
DTRAIN_FLAG(bool, mask_special_tokens, text.mask_special_tokens, Anything(), "",
            "Allow <s> and </s> to be masked, as fairseq does.", .used_by = kMaskedWords, .kept_with_weights = true)
DTRAIN_FLAG(int64, vocab_size, text.vocab_size, Between(0, 1 << 24), "tokens",
            "Size of the vocabulary, at least 5; 0: from the dictionary of the data (including <mask>), "
            "--model_config or --init_weights.", .kept_with_weights = true)
DTRAIN_FLAG(bool, unpad, text.unpad, Anything(), "",
            "Compute on real tokens only, without padding: the same loss, faster if texts differ in length. On a CPU it is on "
            "for sentences unless --nounpad is given.")
DTRAIN_FLAG(string, text_column, text.text_column, Anything(), "",
            "Column of the text in files of sentences, by its name or its number from 0; empty: found by its name.",
            .used_by = kSentences, .kept_with_weights = true)
DTRAIN_FLAG(string, text_pair_column, text.pair_column, Anything(), "",
            "Column of the second text of each pair, likewise; empty: found by its name, or there is none.",
            .used_by = kSentences, .kept_with_weights = true)
DTRAIN_FLAG(string, keep_columns, text.keep_columns, Anything(), "",
            "With --mode=predict: which other columns of the table --output has, too: all, none, or names with commas between "
            "them. For whoever predicts for a table with large columns.", .used_by = kSentences, .of_training = false)
DTRAIN_FLAG(string, pooling, text.pooling, OneOf("auto | mean | cls"), "",
            "What the vector of a text is: mean: the mean over its tokens; cls: that of the first token; auto: what the folder "
            "of --init_weights says, if SentenceTransformer has written it, else mean.",
            .used_by = kVectors, .same_on_resume = true, .kept_with_weights = true)
DTRAIN_FLAG(bool, normalize_vectors, text.normalize_vectors, Anything(), "",
            "Vectors that are written, and those of an exported model, have length 1. If not given, as in the folder of "
            "--init_weights. Training compares directions alone, with and without it.",
            .used_by = kVectors, .kept_with_weights = true)
DTRAIN_FLAG(string, embedding_loss, text.embedding_loss, OneOf("auto | contrastive | cosine"), "",
            "contrastive: each text finds its own second text among those of the batch, over all ranks, and the negatives; "
            "cosine: the squared error of the cosine of two texts to their score; auto: cosine if the training data has scores.",
            .used_by = kVectors, .same_on_resume = true)
DTRAIN_FLAG(double, temperature, text.temperature, Between(0.0001, 100), "",
            "What cosines are divided by in the contrastive loss: 0.05 is sentence-transformers' scale=20.", .used_by = kVectors)
DTRAIN_FLAG(string, negative_column, text.negative_column, Anything(), "",
            "Columns of texts that are unlike the first one of the row, with commas between them; empty: found by their names.",
            .used_by = kVectors)
DTRAIN_FLAG(double, score_scale, text.score_scale, AtLeast(0), "",
            "What scores are divided by to be cosines; 0: 5 if some of the training data are above 1, as in STS benchmarks, "
            "else 1.", .used_by = kVectors, .same_on_resume = true)

DTRAIN_FLAG(string, model, model.name, Anything(), "", "Model architecture; --list_models lists them.",
            .same_on_resume = true, .kept_with_weights = true)
DTRAIN_FLAG(string, model_config, model.config_file, Anything(), "",
            "With a model of text of any shape (--model=roberta, bert …): a Hugging Face config.json that defines its shape.",
            .path = kRead)
DTRAIN_FLAG(int64, num_classes, model.num_classes, Between(0, 10'000'000), "classes",
            "Number of outputs of the classifier; 0: as many as the data has classes.", .used_by = kImages)
DTRAIN_FLAG(string, init_weights, model.init_weights, Anything(), "",
            "File of weights to start from: safetensors, or a .pt or .pth file of torch.save (no code in it is run), "
            "with the names of torchvision, timm, Hugging Face or fairseq. If its classes differ from the data's, "
            "the classifier starts from random weights.",
            .path = kRead)
DTRAIN_FLAG(string, weights_naming, model.weights_naming, OneOf("auto | torchvision | timm | hf | fairseq"), "",
            "Naming scheme for exported weights. With --init_weights, whose scheme is recognised: fail unless it is "
            "this one.")
DTRAIN_FLAG(bool, strict_weights, model.strict_weights, Anything(), "",
            "Refuse --init_weights, and the --input of an export, if tensors are missing, extra or of the wrong shape.")
DTRAIN_FLAG(string, freeze, model.freeze, Anything(), "",
            "Modules that are not trained, separated by commas, as in conv1,bn1,layer1 (with everything in them); "
            "backbone: everything but the classifier. Their batch normalisation keeps its running statistics, too.",
            .same_on_resume = true)
DTRAIN_FLAG(bool, zero_init_residual, model.zero_init_residual, Anything(), "",
            "Initialise each residual block to the identity.")
DTRAIN_FLAG(bool, channels_last, model.channels_last, Anything(), "",
            "Use the NHWC memory format: the same numbers, faster convolutions.",
            .used_by = kImages, .also_off = {"false"})

DTRAIN_FLAG(double, dropout, model.dropout, Below(1), "probability", "Dropout probability; not given: the model's own.",
            .also_off = {"0"})
DTRAIN_FLAG(double, attention_dropout, model.attention_dropout, Below(1), "probability",
            "Dropout probability of the attention weights; not given: the model's own.", .also_off = {"0"})
DTRAIN_FLAG(double, classifier_dropout, model.classifier_dropout, Below(1), "probability",
            "Dropout probability in the head that classifies text; not given: that of --dropout, or of config.json.",
            .used_by = kLabels, .also_off = {"0"})
DTRAIN_FLAG(double, drop_path, model.drop_path, Below(1), "probability",
            "Images but ResNets: probability that a sample skips a residual block (stochastic depth), rising linearly "
            "with depth from 0 to this value; not given: the model's own, 0.2 of EfficientNets, else 0.",
            .also_off = {"0"})
DTRAIN_FLAG(double, bn_momentum, model.bn_momentum, Between(0, 1), "",
            "Batch normalisation: weight of the newest batch in the running statistics; not given: the model's own.")
DTRAIN_FLAG(double, bn_eps, model.bn_eps, MoreThan(0), "",
            "Normalisation in image models: number added to the variance; not given: the model's own.",
            .kept_with_weights = true)
DTRAIN_FLAG(bool, activation_checkpointing, model.activation_checkpointing, Anything(), "",
            "Text: save memory by computing each layer's activations again in the backward pass.")

DTRAIN_FLAG(string, teacher, teacher.weights, Anything(), "",
            "Weights of a trained model whose predictions are learned beside the labels (distillation): a file, a folder, a run, "
            "or a name, as for --init_weights. Its classes must be those of the data; it sees the same images, normalised and "
            "resized as it was trained, and no checkpoint has it.", .own_to_each_rank = true, .path = kRead)
DTRAIN_FLAG(string, teacher_model, teacher.model, Anything(), "",
            "Its --model; empty: what the weights tell.", .companion = &kTeacher)
DTRAIN_FLAG(string, distill, teacher.distill, OneOf("soft | hard"), "",
            "What is learned of --teacher. soft: its probabilities; hard: its likeliest class. A model with a second token "
            "(deit_*_distilled_*) learns it with that token, and the labels with the other one.",
            .companion = &kTeacher)
DTRAIN_FLAG(double, distill_weight, teacher.weight, Between(0, 1), "",
            "Weight of the teacher's part of the loss; that of the labels has the rest.", .companion = &kTeacher)
DTRAIN_FLAG(double, distill_temperature, teacher.temperature, MoreThan(0), "",
            "With --distill=soft: what the logits of both are divided by. The greater, the more the unlikely classes count.",
            .companion = &kTeacher)

DTRAIN_FLAG(int64, batch_size, batch.batch_size, Between(1, kMostSamples), "samples",
            "Samples per device and micro-step; not given: derived from --global_batch_size, or 32. With "
            "--deterministic=elastic: the most that a shard may have, which changes no number.")
DTRAIN_FLAG(int64, global_batch_size, batch.global_batch_size, Between(1, kMostInAll), "samples",
            "Samples per optimizer step over all ranks: batch_size x world size x grad_accum_steps.")
DTRAIN_FLAG(int64, grad_accum_steps, batch.grad_accum_steps, Between(1, kMostMicroSteps), "micro-steps",
            "Micro-steps per optimizer step; not given: derived from --global_batch_size, or 1.")
DTRAIN_FLAG(int64, elastic_shards, batch.elastic_shards, Between(1, 65'536), "shards",
            "With --deterministic=elastic: the shards of the global batch, each computed by one rank; at least as many "
            "as ranks, and the same throughout the run. Not given: half of the global batch, at most 8.",
            .same_on_resume = true, .companion = &kElastic)
DTRAIN_FLAG(double, epochs, batch.epochs, MoreThan(0), "epochs",
            "Number of passes over the training data; may be fractional.")
DTRAIN_FLAG(int64, max_steps, batch.max_steps, AtLeast(1), "steps",
            "Number of optimizer steps; the run ends at this or at --epochs, whichever comes first.")
DTRAIN_FLAG(int64, seed, batch.seed, AtLeast(0), "",
            "Seed of the initial weights, the order of samples and the augmentation.",
            .same_on_resume = true, .kept_with_weights = true)

DTRAIN_FLAG(string, optimizer, optimizer.name, OneOf(OptimizerChoices()), "", "Optimizer.", .same_on_resume = true)
DTRAIN_FLAG(double, lr, optimizer.lr, AtLeast(0), "",
            "Peak learning rate; not given: that of --optimizer, unless that requires it.")
DTRAIN_FLAG(double, lr_base_batch, optimizer.lr_base_batch, AtLeast(0), "samples",
            "Global batch size for which --lr is meant: the peak becomes lr x global batch / lr_base_batch; 0: no "
            "scaling.")
DTRAIN_FLAG(string, lr_scaling, optimizer.lr_scaling, OneOf("linear | sqrt"), "",
            "With --lr_base_batch: scale by global batch / lr_base_batch (linear) or by its square root (sqrt).")
DTRAIN_FLAG(double, momentum, optimizer.momentum, Below(1), "",
            "Momentum of " + OptimizersWith("momentum") + ".", .shown = "momentum")
DTRAIN_FLAG(bool, nesterov, optimizer.nesterov, Anything(), "",
            "Use Nesterov momentum with " + OptimizersWith("nesterov") + ".", .shown = "(Nesterov)")
DTRAIN_FLAG(bool, lr_in_momentum, optimizer.lr_in_momentum, Anything(), "",
            "The momentum of " + OptimizersWith("lr_in_momentum") + " sums steps, each with the learning rate of its time, as in Caffe and MXNet, "
            "rather than gradients: where the rate falls, the steps follow gradually.", .same_on_resume = true,
            .shown = "(of steps)")
DTRAIN_FLAG(string, adam_betas, optimizer.adam_betas, Numbers(2, Below(1)), "",
            OptimizersWith("adam_betas") + ": decay rates of the averages of gradients and of squared gradients.",
            .shown = "betas")
DTRAIN_FLAG(double, adam_eps, optimizer.adam_eps, AtLeast(0), "",
            OptimizersWith("adam_eps") + ": number added to the square root of the average of squares.", .shown = "eps")
DTRAIN_FLAG(double, lars_trust, optimizer.lars_trust, MoreThan(0), "",
            OptimizersWith("lars_trust") + ": norm of a layer's step relative to the norm of its weights, at a learning rate of 1.",
            .shown = "trust")
DTRAIN_FLAG(bool, lars_clip, optimizer.lars_clip, Anything(), "",
            OptimizersWith("lars_clip") + ": no layer's own rate exceeds the learning rate (LARC).", .shown = "(clipped)")
DTRAIN_FLAG(double, rmsprop_alpha, optimizer.rmsprop_alpha, Below(1), "",
            OptimizersWith("rmsprop_alpha") + ": decay rate of the average of squared gradients, which starts at 1, and at 0 with rmsprop.",
            .shown = "alpha")
DTRAIN_FLAG(double, rmsprop_eps, optimizer.rmsprop_eps, AtLeast(0), "",
            OptimizersWith("rmsprop_eps") + ": number added to the average of squares, under the square root, and to the root with rmsprop.",
            .shown = "eps")
DTRAIN_FLAG(double, backbone_lr_factor, optimizer.backbone_lr_factor, MoreThan(0), "",
            "Factor on the learning rate of everything but the classifier; 0.1 is usual with --init_weights.")
DTRAIN_FLAG(double, layer_decay, optimizer.layer_decay, Limits({.minimum = 0, .maximum = 1, .minimum_excluded = true}), "",
            "Transformers and ConvNeXts: factor on the learning rate from each layer to the one below it, from the head "
            "down to the embeddings; 1: off.")
DTRAIN_FLAG(double, weight_decay, optimizer.weight_decay, AtLeast(0), "", "Strength of the L2 penalty on the weights.")
DTRAIN_FLAG(bool, decay_norm_and_bias, optimizer.decay_norm_and_bias, Anything(), "",
            "Apply weight decay to normalisation layers and biases, too, and what scales each layer's step by its "
            "norm. --optimizer says where it is off unless it is given.")
DTRAIN_FLAG(bool, decay_bias, optimizer.decay_bias, Anything(), "",
            "Apply weight decay to biases where --decay_norm_and_bias applies it to norms. --nodecay_bias: to their "
            "weights alone, as MXNet does.")
DTRAIN_FLAG(double, clip_norm, optimizer.clip_norm, AtLeast(0), "",
            "Greatest L2 norm of all gradients together; larger gradients are scaled down to it; 0: no clipping.",
            .shown = "clipped to")
DTRAIN_FLAG(int64, max_skipped_steps, optimizer.max_skipped_steps, AtLeast(1), "steps",
            "Fail after this many consecutive steps were skipped because their gradients were not finite.")
DTRAIN_FLAG(double, spike_factor, optimizer.spike_factor, AtLeast(0), "standard deviations",
            "A training loss that exceeds its running mean by more than this many of its standard deviations, both of "
            "about 100 steps, is a spike: it is logged, and spikes.jsonl lists its samples; 0: off. 6 is rare in a healthy run.")
DTRAIN_FLAG(string, on_spike, optimizer.on_spike, OneOf("log | skip"), "",
            "With --spike_factor. log: a spike changes nothing; skip: its step is not applied.",
            .companion = &kWatchedLosses)
DTRAIN_FLAG(double, label_smoothing, optimizer.label_smoothing, Below(1), "",
            "Share of the target that is spread evenly over all classes.", .used_by = kClasses,
            .shown = "label smoothing")
DTRAIN_FLAG(string, loss, optimizer.loss, OneOf(LossChoices()), "",
            "Loss for images; not given: the first one that the task has.", .used_by = kImages)
DTRAIN_FLAG(double, bce_threshold, optimizer.bce_threshold, Below(1), "",
            "With --loss=bce: targets above it, smoothed and mixed, become 1 and others 0, as by timm's "
            "--bce-target-thresh; not given: they stay.", .used_by = kImages, .companion = &kBinaryLoss)
DTRAIN_FLAG(bool, bce_sum, optimizer.bce_sum, Anything(), "",
            "With --loss=bce: the sum over the classes in place of their mean.", .used_by = kImages,
            .companion = &kBinaryLoss)
DTRAIN_FLAG(string, class_weights, optimizer.class_weights, Anything(), "",
            "Weights of the classes in the training loss, for data with unequal classes: none, inverse (1 / samples), "
            "sqrt (1 / root of samples), effective (their effective number, arXiv:1901.05555), or a file with a line "
            "NAME,WEIGHT for each class. Of several labels: the weight of the images that have a label.", .used_by = kClassWeights, .path = kRead)
DTRAIN_FLAG(double, ema_decay, optimizer.ema_decay, Below(1), "",
            "Keep an exponential moving average of the weights and evaluate it, too. This is the share of the "
            "average that each update keeps; --ema_start says how early ones begin. 0: no average.", .shown = "EMA")
DTRAIN_FLAG(int64, ema_every, optimizer.ema_every, AtLeast(1), "steps",
            "Steps between two updates of the average of --ema_decay.", .companion = &kAverage)
DTRAIN_FLAG(string, ema_start, optimizer.ema_start, OneOf(AverageStarts()), "",
            "What the n-th update of the average keeps, at most --ema_decay.", .companion = &kAverage)
DTRAIN_FLAG(string, ema_scaling, optimizer.ema_scaling, OneOf("none | torchvision"), "",
            "torchvision: what an update takes of the weights, 1 - ema_decay, is multiplied by global batch x ema_every / "
            "epochs, as by its references' --model-ema.", .companion = &kAverage)
DTRAIN_FLAG(string, best_of, optimizer.best_of, OneOf("auto | raw"), "",
            "Which weights can be the best ones (model_best.safetensors). auto: those of the average of --ema_decay, by "
            "its metrics, if there is one; raw: the weights themselves.")

DTRAIN_FLAG(string, lr_schedule, schedule.name, OneOf(Schedules()), "", "Shape of the learning rate after the warmup.")
DTRAIN_FLAG(double, warmup_epochs, schedule.warmup_epochs, AtLeast(0), "epochs",
            "Length of the linear warmup; alternative to --warmup_steps.")
DTRAIN_FLAG(int64, warmup_steps, schedule.warmup_steps, AtLeast(0), "steps",
            "Length of the linear warmup; alternative to --warmup_epochs.")
DTRAIN_FLAG(double, warmup_fraction, schedule.warmup_fraction, Between(0, 1), "",
            "Length of the linear warmup as a part of the run's steps, rounded up; alternative to --warmup_steps.")
DTRAIN_FLAG(bool, lr_per_epoch, schedule.per_epoch, Anything(), "",
            "The rate changes at the start of each epoch only, not at every step.")
DTRAIN_FLAG(double, warmup_start_lr, schedule.warmup_start_lr, AtLeast(0), "",
            "Absolute learning rate of the first step of the warmup.")
DTRAIN_FLAG(bool, warmup_from_one, schedule.warmup_from_one, Anything(), "",
            "The warmup's first step (with --lr_per_epoch: its first epoch) is one step above --warmup_start_lr, and its "
            "last one has the peak, as in NVIDIA's and Horovod's programs.")
DTRAIN_FLAG(double, poly_power, schedule.poly_power, MoreThan(0), "", "Exponent of " + SchedulesWith("poly_power") + ".")
DTRAIN_FLAG(double, cosine_periods, schedule.cosine_periods, MoreThan(0), "",
            SchedulesWith("cosine_periods") + ": periods of its cosine from the end of the warmup to the end of the schedule.")
DTRAIN_FLAG(double, cosine_alpha, schedule.cosine_alpha, AtLeast(0), "",
            SchedulesWith("cosine_alpha") + ": number added to the line that the cosine is multiplied by.")
DTRAIN_FLAG(double, cosine_beta, schedule.cosine_beta, AtLeast(0), "",
            SchedulesWith("cosine_beta") + ": number added to the product; the last rate is about this part of the peak.")
DTRAIN_FLAG(double, wsd_decay, schedule.wsd_decay, MoreThan(0), "",
            SchedulesWith("wsd_decay") + ": length of the decay that ends the schedule; below 1 a part of the schedule, else a number of steps.")
DTRAIN_FLAG(string, wsd_form, schedule.wsd_form, OneOf("sqrt | linear | cosine"), "",
            SchedulesWith("wsd_form") + ": how the rate decays with the part p of the decay that is done. sqrt: 1 - root of p, steep at first; "
            "linear: 1 - p; cosine: half a cosine.")
DTRAIN_FLAG(double, end_lr, schedule.end_lr, AtLeast(0), "",
            SchedulesWith("end_lr") + ": absolute learning rate at the end.")
DTRAIN_FLAG(double, lr_decay_factor, schedule.decay_factor, MoreThan(0), "",
            SchedulesWith("lr_decay_factor") + ": factor on the learning rate at each decay.")
DTRAIN_FLAG(string, lr_decay_epochs, schedule.decay_epochs, MoreThan(0), "epochs",
            SchedulesWith("lr_decay_epochs") + ": epochs per decay. step with several numbers, as in 30,60,80: the epochs at which the "
            "rate decays.")
DTRAIN_FLAG(bool, schedule_through_warmup, schedule.through_warmup, Anything(), "",
            "Start the schedule with the run, as timm and TensorFlow do, so that the warmup replaces its first part; "
            "if not set, it starts after the warmup.")
DTRAIN_FLAG(int64, schedule_steps, schedule.schedule_steps, AtLeast(1), "steps",
            "Length of the schedule; not given: the length of the run.")

DTRAIN_FLAG(string, precision, precision.name, OneOf("fp32 | tf32 | fp16 | bf16 | amp"), "",
            "Precision of the forward and backward passes; weights stay fp32 (except with --memory_efficient_fp16). "
            "tf32: on GPUs, fp32 with rounded inputs of matrix products. amp: fp16 on a GPU, bf16 on a CPU.")
DTRAIN_FLAG(string, loss_scale, precision.loss_scale, Anything(), "",
            "Factor on the loss in the backward pass: a number, or dynamic (with fp16: grows, and shrinks after an "
            "overflow).")
DTRAIN_FLAG(double, loss_scale_start, precision.loss_scale_start, MoreThan(0), "",
            "With --loss_scale=dynamic: the scale of the first step.")
DTRAIN_FLAG(int64, loss_scale_window, precision.loss_scale_window, AtLeast(1), "steps",
            "With --loss_scale=dynamic: consecutive good steps before the loss scale doubles; not given: 2000, for "
            "masked words 2^14 / (ranks x grad_accum_steps) as in fairseq.")
DTRAIN_FLAG(bool, memory_efficient_fp16, precision.memory_efficient_fp16, Anything(), "",
            "Text, with fp16 and Adam: keep weights, gradients and moments in half precision, too; updates are "
            "computed in fp32.", .used_by = kText)

DTRAIN_FLAG(string, nproc_per_node, ranks.nproc_per_node, Anything(), "ranks",
            "Number of local ranks to start; auto: one per GPU, or one without GPUs; empty: one.",
            .own_to_each_rank = true, .changes_no_result = true)
DTRAIN_FLAG(string, nnodes, ranks.nnodes, Anything(), "machines",
            "Number of machines of the run. With --node_rank, ranks are started on this one; else the number is "
            "checked against what the launcher started.", .own_to_each_rank = true, .changes_no_result = true)
DTRAIN_FLAG(int64, node_rank, ranks.node_rank, Between(0, kMaxRanks - 1), "",
            "Index of this machine, from 0 to nnodes - 1; starts its local ranks here. Needs --master_addr.",
            .own_to_each_rank = true, .changes_no_result = true)
DTRAIN_FLAG(int64, max_restarts, ranks.max_restarts, Between(0, 1'000'000), "restarts",
            "How often the local ranks that this process started are restarted after a failure.",
            .own_to_each_rank = true, .changes_no_result = true)
DTRAIN_FLAG(int64, rank, ranks.rank, Between(0, kMaxRanks - 1), "",
            "Index of this process in the run, from 0; needs --world_size.", .own_to_each_rank = true,
            .changes_no_result = true)
DTRAIN_FLAG(int64, world_size, ranks.world_size, Between(1, kMaxRanks), "ranks",
            "Number of processes of the run; more than 1 needs --master_addr and --master_port.",
            .changes_no_result = true)
DTRAIN_FLAG(int64, local_rank, ranks.local_rank, Between(0, kMaxRanks - 1), "",
            "Index of this process on its machine, from 0, which selects its GPU.", .own_to_each_rank = true,
            .changes_no_result = true)
DTRAIN_FLAG(string, master_addr, ranks.master_addr, Anything(), "", "Host name or address of rank 0.",
            .own_to_each_rank = true, .changes_no_result = true)
DTRAIN_FLAG(int64, master_port, ranks.master_port, Between(1, 65535), "", "Port that rank 0 listens on; ranks that are started on one machine choose a free one.",
            .own_to_each_rank = true, .changes_no_result = true)
DTRAIN_FLAG(string, backend, ranks.backend, OneOf("auto | nccl | gloo"), "",
            "Library for communication between ranks; auto: nccl on GPUs, gloo on CPUs.", .of_training = false)
DTRAIN_FLAG(bool, require_gpu, ranks.require_gpu, Anything(), "",
            "End with 2 where there is no GPU, instead of computing on the CPU.", .of_training = false)
DTRAIN_FLAG(double, bucket_cap_mb, ranks.bucket_cap_mb, MoreThan(0), "MiB",
            "Size of the gradient buckets, which are reduced while the backward pass runs.", .of_training = false)
DTRAIN_FLAG(string, grad_compression, ranks.grad_compression, OneOf("none | fp16 | bf16"), "",
            "Type in which gradients are sent between ranks. fp16 and bf16 halve the bytes and lose digits.")
DTRAIN_FLAG(bool, sync_bn, ranks.sync_bn, Anything(), "", "Batch normalisation over the batches of all ranks together.",
            .used_by = kImages)
DTRAIN_FLAG(string, deterministic, ranks.deterministic, OneOf("off | run | elastic"), "",
            "run: the same run gives the same bits on GPUs, too, resumed or not. Slower, since algorithms are not "
            "chosen by measured speed. elastic: and on any number of ranks, which may change during the run; needs "
            "--global_batch_size.", .of_training = false)
DTRAIN_FLAG(string, cuda_graphs, ranks.cuda_graphs, OneOf("off | on | auto"), "",
            "Whether the training step is recorded once and then started as a whole, with the same bits. on: it is an "
            "error if that is not possible (on a CPU, with --activation_checkpointing or --deterministic=elastic); "
            "auto: such steps are not recorded.", .of_training = false)
DTRAIN_FLAG(string, run_token, ranks.run_token, Anything(), "",
            "Secret that all ranks of the run share; a process without it cannot join. Other users can see command "
            "lines, so prefer the environment variable DTRAIN_RUN_TOKEN.", .own_to_each_rank = true, .secret = true,
            .changes_no_result = true)
DTRAIN_FLAG(double, init_timeout, ranks.init_timeout_seconds, MoreThan(0), "seconds",
            "How long ranks wait for each other at the start.", .changes_no_result = true)
DTRAIN_FLAG(double, comm_timeout, ranks.comm_timeout_seconds, MoreThan(0), "seconds",
            "How long a rank may keep the others waiting before it counts as lost.", .changes_no_result = true)

DTRAIN_FLAG(string, log_format, report.log_format, OneOf("auto | bar | table | json"), "",
            "Format of the console output; auto and bar: a progress bar on a terminal, plain lines elsewhere.")
DTRAIN_FLAG(int64, log_interval, report.log_interval, AtLeast(1), "steps",
            "Steps between two lines of the console and of metrics.jsonl; not given: fewer if an epoch has fewer.")
DTRAIN_FLAG(bool, clear_log, report.clear_log, Anything(), "",
            "Empty metrics.jsonl at the start, unless the run was restarted after a failure.")
DTRAIN_FLAG(bool, tensorboard, report.tensorboard, Anything(), "",
            "Write TensorBoard events to the run directory: view them with tensorboard --logdir=RUN_DIR, or several "
            "runs with their common parent.")
DTRAIN_FLAG(string, profile_steps, report.profile_steps, Anything(), "",
            "FIRST:LAST, counted from 1: write a Chrome trace of these steps to RUN_DIR/profile, and print where "
            "their time goes; empty: off.")
DTRAIN_FLAG(int64, metrics_port, report.metrics_port, Between(0, 65535), "",
            "Port that serves Prometheus metrics at /metrics (rank 0), and at /healthz, on each machine, whether its ranks "
            "go on: 200, or 503 if they have stood still for longer than --comm_timeout; 0: off.",
            .own_to_each_rank = true)
DTRAIN_FLAG(string, metrics_address, report.metrics_address, Anything(), "",
            "Address that --metrics_port listens on; 0.0.0.0 (with IPv6, ::): all addresses of the machine, for "
            "everyone who can reach it.", .own_to_each_rank = true)
DTRAIN_FLAG(string, metrics_file, report.metrics_file, Anything(), "",
            "Write the Prometheus metrics to this file every ten seconds, for node-exporter's textfile collector "
            "(NAME.prom); empty: off.",
            .path = kWritten)
DTRAIN_FLAG(string, on_event, report.on_event, Anything(), "",
            "A command that rank 0 starts once; it reads a line of JSON from its standard input for each start, logged "
            "step, validation, checkpoint and end. Training never waits for it. Empty: none.")
// clang-format on

namespace dtrain::config {

const std::vector<Section>& Sections() {
  static const std::vector<Section> sections = {
      {.name = "run", .title = "What to run, and where", .of_training = false},
      {.name = "data", .title = "Data"},
      {.name = "image", .title = "Images", .used_by = kImages},
      {.name = "text", .title = "Text", .used_by = kText},
      {.name = "model", .title = "Model"},
      {.name = "teacher", .title = "A teacher", .used_by = kTaught},
      {.name = "batch", .title = "Batches and length"},
      {.name = "optimizer", .title = "Optimizer"},
      {.name = "schedule", .title = "Learning rate schedule"},
      {.name = "precision", .title = "Precision"},
      {.name = "ranks", .title = "Ranks"},
      {.name = "report", .title = "Report", .of_training = false, .changes_no_result = true}};
  return sections;
}

const std::vector<Flag>& Flags() { return MutableFlags(); }

std::vector<std::string> FlagsWith(bool FlagTraits::*trait) {
  std::vector<std::string> names;
  for (const Flag& flag : Flags()) {
    if (flag.traits.*trait) names.push_back(flag.name);
  }
  return names;
}

bool WasGiven(const Config& config, const std::string& name) {
  return std::ranges::find(config.given, name) != config.given.end();
}

bool IsOff(const Flag& flag, const Config& config) {
  const Value value = flag.get(config);
  const auto& also_off = flag.traits.also_off;
  return value == flag.get(Config()) || std::ranges::find(also_off, ToText(value)) != also_off.end();
}

bool Set(const Flag& flag, const std::string& text, Config& config) {
  const bool is_number = flag.kind == Kind::kInteger || flag.kind == Kind::kNumber;
  if (is_number && !NumberFrom(text)) return false;  // gflags reads other notations, too
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
