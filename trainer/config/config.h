// The configuration: plain structs, one section per concern, filled from the command line (flags.h), completed by main,
// and checked once (problems.h). flags.cc has the meaning of each field in full. An empty optional means that the flag
// was not given and its value is derived later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::config {

struct DataConfig {
  std::string dir;     // empty with `labels`: the table's folder
  std::string labels;  // a table with the labels of images; empty: they lie beside or in the images
  // Names of columns, as of texts; empty: found by the names that data sets commonly use.
  std::string image_column, label_column, split_column;
  std::string label_separator;         // of several labels in a cell; empty: a column for each label
  double label_threshold = 0.5;        // the probability from which one of several labels is decided for
  std::string group_column;            // empty: each row is its own group
  std::string csv_delimiter = "auto";  // auto | comma | semicolon | tab
  // A name in DataFormats(); these and the names of other lists are in choices.h.
  std::string format = "auto";
  std::string train_split = "train";
  std::string val_split = "val";  // one or several, separated by commas: ValSplits (resolve.h)
  double val_fraction = 0;        // the part of the training split to validate on; 0: none of it
  int64_t split_seed = 0;         // which samples that part has
  std::string val_fold;           // I/K; empty: val_fraction
  std::string group_pattern;      // of the names of image files; empty: each is its own group
  int64_t workers = 0;            // decode threads of this rank; 0: as many as its cores
  int64_t prefetch_batches = 4;
  std::string shuffle = "global";         // global | shard | none
  std::string sampling = "natural";       // natural | balanced
  std::string cache = "none";             // none | ram
  std::string last_batch = "stream";      // stream | drop
  std::optional<double> max_bad_records;  // fraction of the records of a split; empty: data::BadRecordBudget's
  bool strict = false;
  bool allow_dataset_change = false;
  std::string label_offset = "auto";  // auto | a whole number, the label of the first class in the data
  std::string index_dir;              // empty: beside the data
};

struct ImageConfig {
  int64_t size = 224;
  std::string size_schedule;                // EPOCH:SIZE,…; empty: `size` throughout
  int64_t eval_size = 0;                    // 0: size
  int64_t eval_resize = 0;                  // pixels of the short side; 0: the size of evaluation / 0.875
  std::string interpolation = "bilinear";   // bilinear | bicubic | random
  std::string eval_interpolation = "auto";  // auto | bilinear | bicubic
  bool exif_orientation = true;
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> std = {0.229, 0.224, 0.225};
  // A name in data::Augments(), one of timm's (data/image/augment_policy.h), or auto: basic for image files, none for
  // tensors
  std::string augment = "auto";
  std::string augment_interpolation = "nearest";            // nearest | bilinear; of shears, translations and rotations
  std::string crop = "resized";                             // a name in Crops()
  std::vector<double> native_scale = {1, 1};                // least and greatest, of native crops
  std::vector<double> crop_scale = {0.08, 1};               // least and greatest part of the area
  std::vector<double> crop_ratio = {3.0 / 4.0, 4.0 / 3.0};  // least and greatest width / height
  double hflip = 0.5;                                       // probability
  int64_t repeated_augmentation = 1;                        // copies of each sample
  std::vector<double> color_jitter = {0};                   // one number, or brightness, contrast, saturation and hue
  std::vector<double> hls_jitter = {0, 0, 0};               // of hue, lightness and saturation, at most
  double pca_lighting = 0;                                  // standard deviation
  double blur = 0;                                          // probability
  double random_erasing = 0;                                // probability
  std::string erasing = "torchvision";                      // a name in Erasings()
  int64_t erasing_count = 1;                                // rectangles of an image, at most
  double mixup = 0, cutmix = 0;                             // alpha; 0: off
  double mix_prob = 1, mix_switch_prob = 0.5;               // of a batch to be mixed at all, and then by CutMix
  double mix_epochs = 0;                                    // after these, none is; 0: all are
};

struct TextConfig {
  int64_t tokens_per_sample = 512;        // at most in a block, the <s> in front included
  int64_t max_tokens = 0;                 // blocks × longest block, of a micro-batch; 0: no limit
  std::string sample_break = "complete";  // complete | complete_doc | eos | none | joined | lines
  double mask_prob = 0.15;
  bool mask_whole_words = false;
  bool mask_special_tokens = false;
  int64_t vocab_size = 0;  // 0: that of the dictionary or the model's configuration
  bool unpad = false;
  std::string text_column, pair_column;  // of sentences; empty: found by their names
  std::string keep_columns = "all";      // all | none | names with commas between them

  // Of vectors of texts.
  std::string pooling = "auto";         // mean | cls; auto: as the folder of the weights says, else mean
  bool normalize_vectors = true;        // if not given: likewise
  std::string embedding_loss = "auto";  // contrastive | cosine; auto: cosine if the data has scores
  double temperature = 0.05;
  std::string negative_column;  // names with commas between them; empty: found by their names
  double score_scale = 0;       // 0: found by the scores
};

// What --model is for a task of text if nothing says more; its shape is told by --model_config or by weights.
inline constexpr char kTextModel[] = "roberta";

struct ModelConfig {
  std::string name = "resnet50";
  std::string config_file;  // a Hugging Face config.json, for a model of text
  int64_t num_classes = 0;  // 0: as many as the data has
  std::string init_weights;
  std::string weights_naming = "auto";  // auto | torchvision | timm | hf | fairseq
  bool strict_weights = true;
  std::string freeze;  // prefixes of parameter names, separated by commas
  bool zero_init_residual = false;
  bool channels_last = true;
  std::optional<double> dropout, attention_dropout, classifier_dropout, drop_path;  // empty: the model's default
  std::optional<double> bn_momentum, bn_eps;                                        // likewise
  bool activation_checkpointing = false;
};

struct TeacherConfig {
  std::string weights;           // a file or folder; empty: there is no teacher
  std::string model;             // empty: what the weights tell
  std::string distill = "soft";  // soft | hard
  double weight = 0.5;           // of the teacher's part of the loss
  double temperature = 1;        // with soft
};

struct BatchConfig {
  std::optional<int64_t> batch_size;  // per device and micro-step
  std::optional<int64_t> global_batch_size;
  std::optional<int64_t> grad_accum_steps;
  std::optional<int64_t> elastic_shards;  // of the global batch; empty without --deterministic=elastic (batch_sizes.h)
  double epochs = 90;
  std::optional<int64_t> max_steps;
  int64_t seed = 0;
};

struct OptimizerConfig {
  // A name in Optimizers().
  std::string name = "sgd";
  std::optional<double> lr;           // peak; empty: resolve.cc derives it
  double lr_base_batch = 0;           // > 0: the peak is multiplied by global batch / lr_base_batch …
  std::string lr_scaling = "linear";  // … or by its square root: linear | sqrt
  double momentum = 0.9;
  bool nesterov = false;
  bool lr_in_momentum = false;
  std::vector<double> adam_betas = {0.9, 0.999};
  double adam_eps = 1e-8;
  double lars_trust = 0.001;
  bool lars_clip = false;
  double rmsprop_alpha = 0.9;
  double rmsprop_eps = 1e-10;
  double backbone_lr_factor = 1;
  double layer_decay = 1;  // of families that name their layers
  double weight_decay = 1e-4;
  bool decay_norm_and_bias = true;
  bool decay_bias = true;  // where norms are decayed
  double clip_norm = 0;    // 0: no clipping
  int64_t max_skipped_steps = 30;
  double spike_factor = 0;       // standard deviations; 0: losses are not watched
  std::string on_spike = "log";  // log | skip
  std::string loss = "ce";       // a name in Losses()
  std::optional<double> bce_threshold = {};
  bool bce_sum = false;
  std::string class_weights = "none";  // none | inverse | sqrt | effective | the path of a file
  double label_smoothing = 0;
  double ema_decay = 0;                  // 0: no average
  int64_t ema_every = 1;                 // steps between two updates of the average
  std::string ema_start = "tensorflow";  // a name in AverageStarts()
  std::string ema_scaling = "none";      // none | torchvision
  std::string best_of = "auto";          // auto | raw
};

struct ScheduleConfig {
  std::string name = "poly";  // a name in Schedules()
  double warmup_epochs = 0;
  std::optional<int64_t> warmup_steps = {};
  double warmup_fraction = 0;  // of the steps of the run
  double warmup_start_lr = 0;
  bool warmup_from_one = false;  // the warmup's first step (or epoch) is already one above warmup_start_lr
  double poly_power = 2;
  double cosine_periods = 0.5, cosine_alpha = 0, cosine_beta = 0.001;  // of linear_cosine
  double end_lr = 0;
  double decay_factor = 0.1;
  std::vector<double> decay_epochs = {30};  // one number: the period; several: the epochs themselves
  double wsd_decay = 0.1;                   // below 1 a part of the schedule, else steps
  std::string wsd_form = "sqrt";            // sqrt | linear | cosine
  bool per_epoch = false;                   // the rate changes at the start of each epoch only
  bool through_warmup = false;              // the schedule counts from step 0 instead of the end of the warmup
  std::optional<int64_t> schedule_steps = {};
};

struct PrecisionConfig {
  std::string name = "fp32";                 // fp32 | tf32 | fp16 | bf16
  std::string loss_scale = "dynamic";        // dynamic (with fp16 only) | a number
  double loss_scale_start = 65536;           // with `dynamic`
  std::optional<int64_t> loss_scale_window;  // steps; empty: fairseq's for masked words, else 2,000
  bool memory_efficient_fp16 = false;        // weights, gradients and moments are fp16, too
};

inline constexpr int kMaxRanks = 1'000'000;  // of a run

struct RanksConfig {
  std::string nproc_per_node;  // auto | N; empty: not given
  std::string nnodes;          // N | MIN:MAX; empty: not given
  std::optional<int64_t> node_rank;
  int64_t max_restarts = 0;
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
  std::optional<int64_t> local_rank;
  std::string master_addr;
  std::optional<int64_t> master_port;
  std::string backend = "auto";  // auto | nccl | gloo
  bool require_gpu = false;
  double bucket_cap_mb = 25;
  std::string grad_compression = "none";  // or one of the names in the row of its flag
  bool sync_bn = false;
  std::string deterministic = "off";  // off | run | elastic
  std::string cuda_graphs = "auto";   // off | on | auto
  std::string run_token;
  double init_timeout_seconds = 300;
  double comm_timeout_seconds = 600;
};

struct RunConfig {
  std::string mode = "train";  // train | eval | predict | export
  std::string task = "auto";   // see flags.cc; auto: not yet derived from the model and the data
  std::string input;
  std::string output;
  std::string predictions;  // empty: none are written
  std::string features;     // likewise
  bool csv_bom = false;
  bool dry_run = false;
  bool print_config = false;
  std::string defaults_of = "auto";  // auto | the name of a ForeignProgram | none
  std::string dir;
  std::string resume = "auto";   // auto | none | last | the path of a checkpoint or a run directory
  std::string weights = "auto";  // auto | last | best | ema; for evaluating, predicting and exporting
  double save_every_epochs = 1;
  int64_t save_every_steps = 0;               // 0: only by epochs
  std::string save_every_seconds = "0";       // a number, 0: only by epochs; auto: see loop/saving.h
  double expected_hours_between_faults = 24;  // of the whole job; with auto
  int64_t keep_checkpoints = 3;
  double eval_every_epochs = 1;               // 0: only at the end
  int64_t eval_every_steps = 0;               // 0: only by epochs
  std::string best_metric = "auto";           // auto | a metric of the task
  double stop_after_epochs_without_gain = 0;  // 0: never
  int64_t limit_train_steps = 0;              // 0: no limit
  int64_t limit_val_steps = 0;                // 0: no limit
  std::optional<double> max_hours;            // 0: no limit; empty: what the launcher tells
};

struct ReportConfig {
  std::string log_format = "auto";  // auto | bar | table | json
  int64_t log_interval = 20;        // steps
  bool clear_log = false;
  bool tensorboard = false;
  std::string profile_steps;  // FIRST:LAST; empty: no profile
  int64_t metrics_port = 0;   // 0: no endpoint
  std::string metrics_address = "127.0.0.1";
  std::string metrics_file;  // empty: no file
  std::string on_event;      // a command; empty: none
};

struct Config {
  RunConfig run;
  DataConfig data;
  ImageConfig image;
  TextConfig text;
  ModelConfig model;
  TeacherConfig teacher;
  BatchConfig batch;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  PrecisionConfig precision;
  RanksConfig ranks;
  ReportConfig report;

  std::vector<std::string> given;  // names of the flags that were on the command line
};

}  // namespace dtrain::config
