// Commands of programs for images, as published on the pages from which people copy them.
#include "trainer/config/aliases.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/config/foreign_commands.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// What the last version of AWS's script does where a command is silent.
std::string WithDefaultsOfAws(const std::string& ours) {
  return "--batch_size=256 --lr=0.1 --lr_base_batch=256 --warmup_start_lr=0.001 --nesterov --nodecay_norm_and_bias "
         "--precision=amp --zero_init_residual --loss_scale=1024 --bn_eps=1e-4 --mean=0.47451,0.45098,0.392157 "
         "--std=0.27451,0.266667,0.278431 --eval_resize=280 --log_interval=50 --lr_schedule=poly --end_lr=1e-5 " +
         ours;
}

// The first command is AWS Batch's.
TEST(ImageAliases, AwsImageNetScripts) {
  ExpectSame("--data_dir d --num_epochs 90 -b 128 --lr_decay_mode poly --warmup_epochs 10 --clear_log",
             WithDefaultsOfAws("--data_dir=d --epochs=90 --batch_size=128 --warmup_epochs=10 --clear_log"));
  EXPECT_THAT(
      Pasted("--mom=0.9").notes,
      ElementsAre(StartsWith("as AWS's train_imagenet_resnet_hvd.py: batch_size 256, lr 0.1, lr_base_batch 256")));
  ExpectSame("--mom=0.8 --wd=5e-5 --nofp16 --noadv_bn_init --log_dir results --num_batches=7",
             WithDefaultsOfAws("--momentum=0.8 --weight_decay=5e-5 --precision=fp32 --nozero_init_residual "
                               "--run_dir=results --max_steps=7 --epochs=1000000"));
  ExpectSame("--lr_decay_mode steps --lr_decay_steps 30 --warmup_epochs=5",  // a command of 2018
             WithDefaultsOfAws("--lr=6.4 --lr_base_batch=0 --precision=fp32 --nozero_init_residual --end_lr=0 "
                               "--lr_schedule=step --lr_decay_epochs=30,1000000 --schedule_through_warmup "
                               "--warmup_epochs=5"));
  ExpectSame("--synthetic", "--data_format=synthetic");
}

TEST(ImageAliases, TorchvisionsReference) {
  ExpectSame(
      "--data-path=imagenet --model=resnet50 --batch-size=128 --lr=0.5 --lr-scheduler=cosineannealinglr "
      "--lr-warmup-epochs=5 --lr-warmup-method=linear --auto-augment=ta_wide --epochs=600 --random-erase=0.1 "
      "--label-smoothing=0.1 --mixup-alpha=0.2 --cutmix-alpha=1.0 --weight-decay=2e-5 --norm-weight-decay=0.0 "
      "--train-crop-size=176 --val-resize-size=232 --ra-sampler --ra-reps=4 --amp -j8 --opt=sgd "
      "--model-ema",
      "--data_dir=imagenet --model=resnet50 --batch_size=128 --lr=0.5 --lr_schedule=cosine --warmup_epochs=5 "
      "--augment=trivialaugment --augment_interpolation=bilinear --epochs=600 --random_erasing=0.1 "
      "--label_smoothing=0.1 --mixup=0.2 --cutmix=1 --weight_decay=2e-5 --nodecay_norm_and_bias "
      "--warmup_start_lr=0.005 --lr_per_epoch --lr_decay_epochs=30 --image_size=176 --eval_image_size=224 "
      "--eval_resize=232 --log_interval=10 --repeated_augmentation=4 --precision=amp --workers=8 --optimizer=sgd "
      "--ema_decay=0.99998 --ema_every=32 --ema_start=torchvision --ema_scaling=torchvision");
  ExpectSame("--lr-warmup-decay=0.01 --lr 0.5 --val-crop-size=192 --defaults_of=none",
             "--warmup_start_lr=0.005 --lr=0.5 --eval_image_size=192 --defaults_of=none");
}

// Loads of made-up data, with what is silent there.
TEST(ImageAliases, Benchmarks) {
  const std::string load = "--data_format=synthetic --eval_every_epochs=0 --save_every_epochs=0 --lr_schedule=step ";
  const std::string tensorflow = load +
                                 "--lr=0.128 --lr_base_batch=256 --lr_decay_epochs=30,60,80,90 --warmup_epochs=5 "
                                 "--momentum=0 --weight_decay=4e-5 --log_interval=10 --schedule_through_warmup ";
  ExpectSame("tf_cnn_benchmarks.py --num_gpus=1 --batch_size=32 --model=resnet50 --variable_update=parameter_server",
             tensorflow + "--batch_size=32 --model=resnet50_v1 --max_steps=110");
  ExpectSame("--model resnet101 --batch_size 64 --variable_update horovod",
             tensorflow + "--batch_size=64 --model=resnet101_v1 --max_steps=110");
  ExpectSame(
      "--model=resnet50_v1.5 --num_gpus=8 --use_fp16 --variable_update=replicated --all_reduce_spec=nccl "
      "--nodistortions --num_batches=50 --num_warmup_batches=0 --optimizer=momentum --data_format=NHWC",
      tensorflow +
          "--batch_size=64 --model=resnet50 --nproc_per_node=8 --precision=fp16 --max_steps=50 --momentum=0.9");
  ExpectSame("--model=resnet50 --variable_update=replicated --init_learning_rate=0.5 --num_epochs=2",
             "--data_format=synthetic --eval_every_epochs=0 --save_every_epochs=0 --model=resnet50_v1 --batch_size=64 "
             "--lr=0.5 --lr_schedule=constant --epochs=2 --momentum=0 --weight_decay=4e-5 --log_interval=10");
  const std::string mxnet = load + "--lr=0.1 --epochs=1000000 --log_interval=20 ";
  ExpectSame(
      "--benchmark 1 --gpus 0,1 --network resnet-v1 --num-layers 50 --batch-size 256 --num-epochs 1 --kv-store device",
      mxnet +
          "--nproc_per_node=2 --model=resnet50_v1 --bn_eps=2e-5 --batch_size=128 --max_steps=5004 "
          "--lr_decay_epochs=30.002646025069332,60.005292050138664");
  ExpectSame(
      "train_imagenet.py --benchmark 1 --dtype float16 --image-shape 3,192,192 --num-layers 18 --lr-step-epochs 9 "
      "--num-examples 6400 --data-train ignored.rec",
      mxnet +
          "--model=resnet18_v2 --batch_size=128 --max_steps=4000 --precision=fp16 --loss_scale=128 --image_size=192 "
          "--lr_decay_epochs=9,1000000");
  for (const char* refused : {"--benchmark=1 --num-layers=20", "--benchmark=1 --gpus=0,1,2", "--benchmark=1 --gpus=x",
                              "--benchmark=1 --image-shape=1,28,28", "--variable_update=replicated --model=resnet50 d",
                              "--variable_update=replicated --model=resnet50 --num_batches=-5",
                              "--variable_update=replicated --model=resnet50 --num_warmup_batches=x"}) {
    EXPECT_THROW(Pasted(refused), UsageError) << refused;
  }
}

TEST(ImageAliases, MxnetsTraining) {
  const std::string silent =
      "--model=resnet50_v2 --lr=0.1 --lr_schedule=step --log_interval=20 --mean=0.4850196078431373,"
      "0.457956862745098,0.4076039215686274 --std=0.00392156862745098,0.00392156862745098,0.00392156862745098 "
      "--num_classes=1000 --label_offset=0 --lr_in_momentum --nodecay_bias --data_dir=d --train_split=a_train "
      "--batch_size=128 ";
  ExpectSame(
      "--data-train d/a_train.rec --num-examples 12800 --kv-store dist_device_sync --use-imagenet-data-augmentation 1",
      silent + "--epochs=80 --lr_decay_epochs=30,60 --crop=native_centre --hflip=0 --eval_every_epochs=0");
  ExpectSame(
      "--data-train d/a_train.rec --data-val d/a_val.rec --num-examples 12800 --gpus 0,1 --batch-size 256 --num-epochs "
      "90 "
      "--lr 0.4 --wd 0.0005 --mom 0.8 --dtype float16 --random-crop 1 --random-mirror 1 --max-random-h 36 "
      "--max-random-s "
      "50 --max-random-l 60 --min-random-scale 0.533 --num-classes 10 --rgb-mean 0,51,255 --lr-factor 0.5",
      silent +
          "--epochs=90 --lr_decay_epochs=30,60 --crop=native --val_split=a_val --nproc_per_node=2 --lr=0.4 "
          "--weight_decay=0.0005 --momentum=0.8 --precision=fp16 --loss_scale=128 --hls_jitter=36,60,50 "
          "--native_scale=0.533,1 --num_classes=10 --mean=0,0.2,1 --lr_decay_factor=0.5");
  for (const char* refused :
       {"--network=resnet-v1", "--pad-size=4", "--lr-step-epochs=pow2", "--image-shape=3,32,32", "--optimizer=nag",
        "--max-random-h=x", "--kv-store=dist_async", "--random-resized-crop=1", "--brightness=0.4", "--pca-noise=0.1",
        "--max-random-rotate-angle=10", "--fill-value=0", "--gc-type=2bit", "--data-val=d/a_train_val.rec",
        "--data-val=e/val.rec", "--load-epoch=3"}) {
    EXPECT_THROW(Pasted("--data-train=d/a_train.rec " + std::string(refused)), UsageError) << refused;
  }
}

TEST(ImageAliases, DeitsTeacher) {
  ExpectSame(
      "--distillation-type hard --teacher-path t.pth --distillation-alpha 0.4 --distillation-tau 3 --teacher-model "
      "resnet50",
      "--distill=hard --teacher=t.pth --distill_weight=0.4 --teacher_model=resnet50");
  ExpectSame("--teacher-path t.pth --distillation-type=none", "");
  for (const char* of_deit : {"main.py --data-path d --model resnet50", "--data-path d --model deit_small_patch16_224",
                              "--data-path d --model resnet50 --distillation-type none"}) {
    EXPECT_THAT(MessageOf([&] { Pasted(of_deit); }), HasSubstr("recipes/deit_small.flags")) << of_deit;
    EXPECT_EQ(Pasted(of_deit + std::string(" --defaults_of=torchvision")).config.data.dir, "d");
  }
  for (const char* other :
       {"main.py --data_path d --model convnext_tiny", "--data_path d --model convnext_tiny --drop_path 0.1",
        "main_finetune.py --data_path d --model vit_base_patch16"}) {
    EXPECT_THAT(MessageOf([&] { Pasted(other); }), AllOf(HasSubstr("MAE"), Not(HasSubstr("deit_small")))) << other;
  }
}

// The command of the AWS walk-through of 256 GPUs.
TEST(ImageAliases, TheScriptOfTheWalkThrough) {
  ExpectSame(
      "-m resnet50 --fp16 --num_epochs 90 --warmup_epochs 5 --adv_bn_init --display_every 100 --loss_scale 256. "
      "--data_dir imagenet_data --lr 3.7 --log_dir results --hue 0.13 --mom 0.977 --wdecay 0.0005 --batch_size 256 "
      "--adv_conv_init --lr_decay_mode linear_cosine --eval_interval 10 --leta 0.012 --save_checkpoints_steps 190",
      WithDefaultsOfAws("--model=resnet50 --precision=fp16 --epochs=90 --warmup_epochs=5 --log_interval=100 "
                        "--loss_scale=256. --data_dir=imagenet_data --lr=3.7 --lr_base_batch=0 --run_dir=results "
                        "--momentum=0.977 --weight_decay=0.0005 --lr_schedule=linear_cosine --end_lr=0 "
                        "--cosine_periods=0.47 --cosine_beta=1e-5 --lars_trust=0.012 --eval_every_epochs=10"));
  ExpectSame("--use_larc --lc_periods=0.4 --increased_aug",
             WithDefaultsOfAws("--optimizer=lars --lars_clip --lars_trust=0.013 --decay_norm_and_bias --lr=3.7 "
                               "--lr_base_batch=0 --color_jitter=0,0.4,0.4,0.065"));
}

TEST(ImageAliases, HorovodsExample) {
  const std::string ours =
      "--warmup_epochs=5 --warmup_from_one --lr_schedule=step --lr_decay_epochs=30,60,80 --schedule_through_warmup "
      "--weight_decay=5e-5 --seed=42 ";
  ExpectSame("--train-dir imagenet/train/ --val-dir imagenet/validation --checkpoint-format=x",
             ours +
                 "--lr=0.0125 --lr_base_batch=32 --warmup_start_lr=0.0125 --data_dir=imagenet --train_split=train "
                 "--val_split=validation");
  ExpectSame("--base-lr 0.1 --batches-per-allreduce=2 --batch-size 64 --fp16-allreduce --warmup-epochs=0",
             ours +
                 "--lr=0.1 --lr_base_batch=64 --warmup_start_lr=0.2 --grad_accum_steps=2 --batch_size=64 "
                 "--grad_compression=fp16 --warmup_epochs=0");
  EXPECT_THROW(Pasted("--train-dir=a/train --val-dir=b/val"), UsageError);
}

TEST(ImageAliases, TorchelasticsExample) {
  const std::string ours = "--data_dir=imagenet --lr=0.1 --lr_schedule=step --lr_decay_epochs=30 --lr_per_epoch ";
  ExpectSame("--arch resnet18 --epochs 20 --batch-size 32 -p 5 imagenet",
             ours + "--model=resnet18 --epochs=20 --batch_size=32 --log_interval=5");
  ExpectSame("imagenet --defaults_of=none", "--data_dir=imagenet --defaults_of=none");
  ExpectSame("imagenet -a resnet18", ours + "--model=resnet18 --batch_size=256 --log_interval=10");
  ExpectSame("main.py -a resnet18 imagenet", ours + "--model=resnet18 --batch_size=256 --log_interval=10");
  ExpectSame(
      "-a resnet50 --dist-url tcp://127.0.0.1:1234 --multiprocessing-distributed --world-size 1 --rank 0 imagenet",
      ours + "--model=resnet50 --global_batch_size=256 --log_interval=10 --nproc_per_node=auto");
  ExpectSame("--dist-url tcp://h:1234 --multiprocessing-distributed --world-size 4 --rank 1 -b 64 imagenet",
             ours +
                 "--model=resnet18 --global_batch_size=256 --log_interval=10 --nproc_per_node=auto --nnodes=4 "
                 "--node_rank=1 --master_addr=h --master_port=1234");
}

TEST(ImageAliases, NamesOfModels) {
  for (const std::string flag : {"--model", "--arch", "-a"}) {
    ExpectSame(flag + " vit_b_16", "--model=vit_base_patch16_224");
    ExpectSame(flag + " efficientnet_v2_s", "--model=efficientnetv2_s");
    ExpectSame(flag + " convnext_tiny", "--model=convnext_tiny");
  }
  ExpectSame("--teacher_model=vit_l_32", "--teacher_model=vit_large_patch32_224");
}

// What NVIDIA's main.py does where a command is silent.
std::string WithDefaultsOfNvidia(const std::string& ours) {
  return "--batch_size=256 --lr=0.1 --lr_per_epoch --warmup_from_one --nodecay_norm_and_bias --log_interval=10 "
         "--lr_schedule=step --lr_decay_epochs=30,60,80 --schedule_through_warmup --eval_resize=256 " +
         ours;
}

TEST(ImageAliases, NvidiasConvNets) {
  ExpectSame("imagenet --data-backend dali-gpu --warmup 5 --lr 2.048 --amp --dynamic-loss-scale --last_bn_0_init True",
             WithDefaultsOfNvidia("--data_dir=imagenet --warmup_epochs=5 --lr=2.048 --precision=amp "
                                  "--loss_scale=dynamic --loss_scale_window=100 --zero_init_residual"));
  const std::string not_step = "--lr_decay_epochs=30 --noschedule_through_warmup ";
  ExpectSame(
      "imagenet --arch efficientnet-b0 --data-backend pytorch --optimizer-batch-size 4096 -b 128 --lr-schedule linear "
      "--end-lr=0.1 --warmup 16 --bn-weight-decay --static-loss-scale 128 --amp --memory-format nhwc --workspace "
      "results "
      "--raport-file raport.json --augmentation autoaugment --survival_prob 0.75",
      WithDefaultsOfNvidia(
          not_step +
          "--data_dir=imagenet --model=efficientnet_b0 --global_batch_size=4096 --batch_size=128 --lr_schedule=poly "
          "--poly_power=1 --warmup_epochs=16 --decay_norm_and_bias --loss_scale=128 --precision=amp --channels_last "
          "--run_dir=results --augment=autoaugment --last_batch=drop --bn_momentum=0.01 --bn_eps=1e-3 "
          "--drop_path=0.25"));
  ExpectSame(
      "--arch efficientnet-b4 --lr-schedule cosine --end-lr=0.1 --static-loss-scale=128",  // without --amp
      WithDefaultsOfNvidia(not_step + "--model=efficientnet_b4 --lr_schedule=cosine --end_lr=0.1 --image_size=380 "
                                      "--eval_resize=412 --bn_momentum=0.01 --bn_eps=1e-3 --drop_path=0.2"));
  ExpectSame("--mode=convergence --precision=AMP",
             WithDefaultsOfNvidia("--mode=train --precision=amp --loss_scale=128"));
  ExpectSame("--data-backend=dali-gpu --optimizer=rmsprop --use-ema 0.999",
             WithDefaultsOfNvidia("--optimizer=rmsprop --rmsprop_eps=1e-3 --ema_decay=0.999 --ema_start=nvidia "
                                  "--best_of=raw"));
  EXPECT_THROW(Pasted("--data-backend=dali-gpu --use-ema 0.999 --optimizer-batch-size 512"), UsageError);
  ExpectSame("./main.py d --data-backend dali-cpu --mom 0.8 -c fanin --pretrained-from-file w",  // of 2019
             WithDefaultsOfNvidia("--data_dir=d --momentum=0.8 --init_weights=w"));
  EXPECT_THAT(Pasted("--data-backend dali-cpu --model-config fanin").notes,
              testing::Contains(HasSubstr("a variance by fan-out")));
  // Commands with no flag that it alone has, but with one that PyTorch's examples/imagenet lacks.
  for (const std::string other : {"-c fanin", "", "--mom 0.9", "-a resnet50 --nesterov"}) {
    EXPECT_THAT(Pasted("main.py --arch resnet50 --label-smoothing 0.1 d " + other).notes.back(),
                StartsWith("as NVIDIA's ConvNets: "))
        << other;
  }
}

// Of a program that is not known, nobody knows what it does where its command is silent.
TEST(ImageAliases, UnknownScripts) {
  for (const std::string other :
       {"main_moco.py -a resnet18 --lr 0.03 -b 4 d", "keras_imagenet_resnet50.py --train-dir d/train",
        "train_quantization.py --data-path d", "mine.py --lr 0.1", "main.py --lr 0.1"}) {
    EXPECT_THAT(MessageOf([&] { Pasted(other); }), AllOf(HasSubstr("--defaults_of=NAME"), HasSubstr("none"))) << other;
    EXPECT_NO_THROW(Pasted(other + " --defaults_of=torchvision")) << other;
  }
  EXPECT_THAT(Pasted("train.py --data-dir d --model resnet18 --amp").notes.back(), StartsWith("as timm's train.py: "));
  EXPECT_THROW(Pasted("train.py --task=masked_lm --data_dir d"), UsageError);
  EXPECT_THAT(Pasted("--arch resnet50 --label_smoothing=0.1 --data_dir d").notes.back(), StartsWith("as PyTorch's"));
  EXPECT_THAT(Pasted("main.py -a resnet50 --amp --dist-url tcp://h:1 d").notes.back(), StartsWith("as PyTorch's"));
  EXPECT_EQ(Pasted("train.py d/imagenet --model resnet18 -b 64").config.data.dir, "d/imagenet");
  EXPECT_THAT(Pasted("train_imagenet_resnet_hvd.py --data_dir d --fp16").notes.back(), StartsWith("as AWS's"));
  EXPECT_THAT(MessageOf([] { Pasted("torchrun --nproc_per_node=2 train.py --data-path d"); }),
              HasSubstr("torchrun is no argument of a training"));
}

TEST(ImageAliases, AFileToGoOnFromIsOfWeightsIfItIsEvaluated) {
  TemporaryFolder folder;
  folder.Write("w.pth", "");
  const std::string named = "--data-path d --resume " + folder.path("w.pth");
  EXPECT_EQ(Pasted(named + " --test-only").config.model.init_weights, folder.path("w.pth"));
  EXPECT_EQ(Pasted(named).config.run.resume, folder.path("w.pth"));
}

// launch.py's settings for machines, models and precisions.
TEST(ImageAliases, NvidiasLaunch) {
  const std::string ours =
      "--lr_per_epoch --warmup_from_one --nodecay_norm_and_bias --log_interval=10 --lr_schedule=cosine "
      "--label_smoothing=0.1 --mixup=0.2 --last_batch=drop --data_dir=imagenet ";
  ExpectSame("launch.py --model resnet50 --precision AMP --mode convergence --platform DGXA100 imagenet --lr=1",
             ours +
                 "--model=resnet50 --batch_size=256 --global_batch_size=2048 --lr=1 --weight_decay=3.0517578125e-05 "
                 "--momentum=0.875 --warmup_epochs=8 --epochs=250 --precision=amp --loss_scale=128 --eval_resize=256");
  ExpectSame("--model efficientnet-b4 --precision FP32 --mode convergence --platform DGX1V-32G imagenet",
             ours +
                 "--model=efficientnet_b4 --batch_size=32 --global_batch_size=4096 --lr=0.16 --weight_decay=5e-6 "
                 "--optimizer=rmsprop --rmsprop_eps=0.01 --warmup_epochs=16 --epochs=400 --augment=autoaugment "
                 "--interpolation=bicubic --precision=fp32 --image_size=380 --eval_resize=412 --bn_momentum=0.01 "
                 "--bn_eps=0.001 --drop_path=0.2");
  EXPECT_THROW(Pasted("--model resnet50 --precision TF32 --platform DGX1V imagenet"), UsageError);
}

// What timm's train.py does where a command is silent, for a ResNet.
std::string WithDefaultsOfTimm(const std::string& ours) {
  return "--label_smoothing=0.1 --epochs=300 --seed=42 --batch_size=128 --lr=0.1 --lr_base_batch=256 "
         "--lr_schedule=cosine --schedule_through_warmup --lr_per_epoch --warmup_epochs=5 --warmup_start_lr=1e-5 "
         "--nesterov --weight_decay=2e-5 --nodecay_norm_and_bias --color_jitter=0.4 --interpolation=random "
         "--eval_interpolation=bicubic --image_size=224 --eval_resize=235 --zero_init_residual --last_batch=drop "
         "--keep_checkpoints=10 --log_interval=50 " +
         ours;
}

TEST(ImageAliases, TimmsDefaultsStandBehindItsCommands) {
  ExpectSame("--sched cosine", WithDefaultsOfTimm(""));
  EXPECT_THAT(Pasted("--sched cosine").notes,
              ElementsAre(StartsWith("as timm's train.py: label_smoothing 0.1, epochs 300, ")));
  ExpectSame("data --opt sgd", WithDefaultsOfTimm("--data_dir=data"));
  const std::string validates = WithDefaultsOfTimm("--data_dir=d --mode=eval --init_weights=w ");
  ExpectSame("validate.py d --init_weights=w", validates + "--image_size=288 --eval_resize=288");
  ExpectSame("validate.py d --checkpoint w --img-size 224", validates + "--eval_resize=224");
  ExpectSame("validate.py d --checkpoint w --use-train-size", validates);
  ExpectSame("inference.py --data-dir d --checkpoint w",
             WithDefaultsOfTimm("--mode=predict --input=d --init_weights=w"));
  EXPECT_EQ(Pasted("data --pin-mem --mode=eval --run_dir=r").config.image.eval_resize, ImageConfig().eval_resize);
  EXPECT_EQ(Pasted("data --pin-mem --output=r").config.run.dir, "r");
  EXPECT_THAT(MessageOf([] { Pasted("data --pin-mem --cutmix-minmax 0.2 0.8"); }),
              "--cutmix_minmax=0.2,0.8 has no equivalent: boxes have the sizes that --cutmix draws");
  ExpectSame("--sched=step --lr=0.4 --epochs 100 --no-aug",
             WithDefaultsOfTimm("--lr_schedule=step --lr_decay_epochs=90 --lr=0.4 --lr_base_batch=0 --epochs=100 "
                                "--augment=basic --crop_scale=1,1 --crop_ratio=1,1 --hflip=0 --color_jitter=0 "
                                "--interpolation=bicubic"));
  ExpectSame(
      "--opt=adamw --img-size=192 --amp --amp-dtype=bfloat16",
      WithDefaultsOfTimm(
          "--optimizer=adamw --nonesterov --lr_scaling=sqrt --image_size=192 --eval_resize=202 --precision=bf16"));
}

// Its scripts that do not train take a folder of classes, or one that holds a split.
TEST(ImageAliases, FoldersOfTimmsScripts) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  std::filesystem::create_directories(path + "/validation/cat");
  const auto data_of = [](const std::string& command) { return Pasted(command + " --checkpoint w").config; };
  EXPECT_EQ(data_of("validate.py " + path).data.val_split, "val");
  EXPECT_EQ(data_of("validate.py --data-dir " + path + "/validation").data.val_split, ".");
  EXPECT_EQ(data_of("inference.py " + path).run.input, path + "/validation");
  EXPECT_EQ(data_of("inference.py --data-dir " + path + "/validation").run.input, path + "/validation");
}

TEST(ImageAliases, Timm) {
  ExpectSame(
      "--sched step --decay-epochs 2.4 --decay-rate .97 --min-lr 1e-5 --reprob 0.2 --remode const --smoothing 0.2 "
      "--native-amp --drop 0.2 --clip-grad 1 --warmup-prefix --warmup-epochs 3 --epochs 10 --torchcompile inductor "
      "imagenet",
      WithDefaultsOfTimm(
          "--lr_schedule=step --lr_decay_epochs=2.4 --lr_decay_factor=0.97 "
          "--random_erasing=0.2 --erasing=const --label_smoothing=0.2 --precision=amp --dropout=0.2 --clip_norm=1 "
          "--noschedule_through_warmup --warmup_epochs=3 --epochs=13 --data_dir=imagenet"));
  ExpectSame("--opt-eps 1e-3 --opt rmsproptf --crop-pct=0.875 --opt-betas 0.8 0.99",
             WithDefaultsOfTimm("--rmsprop_eps=1e-3 --optimizer=rmsprop_tf --nonesterov --eval_resize=256"));
  ExpectSame("--opt AdamW --opt-betas 0.8 0.99 --opt-eps 1e-3 --eval-metric loss --resume=",
             WithDefaultsOfTimm("--optimizer=adamw --nonesterov --lr_scaling=sqrt --adam_betas=0.8,0.99 "
                                "--adam_eps=1e-3 --best_metric=loss"));
  ExpectSame(
      "--sched=cosine --aa rand-m7-mstd0.5-inc1 --reprob 0.25 --recount 3 --bce-loss --bce-target-thresh 0.2",
      WithDefaultsOfTimm("--augment=rand-m7-mstd0.5-inc1 --random_erasing=0.25 --erasing=pixel --erasing_count=3 "
                         "--color_jitter=0 --loss=bce --bce_threshold=0.2"));
  ExpectSame("--sched=cosine --scale 0.35 1 --ratio 1 1 --hflip 0 --model-ema",
             WithDefaultsOfTimm("--crop_scale=0.35,1 --crop_ratio=1,1 --hflip=0 --ema_decay=0.9998 --ema_start=none"));
  ExpectSame("--sched=cosine --model-ema-decay=0.999 --model-ema-force-cpu",
             WithDefaultsOfTimm(""));  // no average
  ExpectSame("--sched=cosine --mixup-off-epoch=200 --mixup=0.2 --drop-block=0 --crop-mode=center -j8 data",
             WithDefaultsOfTimm("--mixup=0.2 --mix_epochs=200 --workers=8 --data_dir=data"));
  ExpectSame("--sched=cosine --mixup-off-epoch=200", WithDefaultsOfTimm(""));
  ExpectSame("--sched=cosine --lr=0 --lr-base=0.2 --lr-base-size 512 --sched-on-updates",
             WithDefaultsOfTimm("--lr=0.2 --lr_base_batch=512 --nolr_per_epoch"));
}

// What depends on other flags in timm's train.py and optimizers.
TEST(ImageAliases, FlagsOfTimmThatCountTogether) {
  ExpectSame("--clip-grad 0.5 --opt lamb",
             WithDefaultsOfTimm("--nonesterov --lr_scaling=sqrt --adam_eps=1e-6 --optimizer=lamb --clip_norm=0.5"));
  ExpectSame("--sched=cosine --bce-loss --smoothing 0", WithDefaultsOfTimm("--label_smoothing=0 --loss=ce"));
  ExpectSame("--sched=cosine --bce-loss --smoothing 0 --cutmix=1",
             WithDefaultsOfTimm("--label_smoothing=0 --loss=bce --cutmix=1"));
  EXPECT_THAT(Pasted("--sched=cosine --grad-accum-steps=2").notes,
              testing::Contains(StartsWith("--grad_accum_steps=2: an epoch ends with its last whole step")));
  ExpectSame("--sched=cosine --output=o --experiment=a", WithDefaultsOfTimm("--run_dir=o/a"));
  for (const char* refused : {"--device=cuda:1", "--sched=multistep --sched-on-updates", "--sched=cosine --clip-grad=0",
                              "--opt=no_such_optimizer", "--drop-block=0.1", "--head-init-scale=0.01",
                              "--train-crop-mode=rkrc", "--crop-mode=squash"}) {
    EXPECT_THROW(Pasted(std::string(refused) + " --defaults_of=timm"), UsageError) << refused;
  }
}

TEST(ImageAliases, TorchvisionsDefaultsStandBehindItsCommands) {
  const std::string ours =
      "--data_dir=d --model=resnet18 --batch_size=32 --lr=0.1 --lr_schedule=step --lr_decay_epochs=30 --lr_per_epoch "
      "--image_size=224 --eval_image_size=224 --eval_resize=256 --log_interval=10";
  ExpectSame("--data-path d", ours);
  ExpectSame("--data-path=d --opt=sgd_nesterov --ra-reps=4", ours + " --nesterov");  // repeated with --ra-sampler only
  ExpectSame("d -j8 --lr-scheduler=StepLR", ours + " --workers=8");
  ExpectSame("--data-path d --opt RMSprop --lr-scheduler=CosineAnnealingLR --resume=",
             ours + " --optimizer=rmsprop --rmsprop_eps=0.0316 --rmsprop_alpha=0.9 --lr_schedule=cosine");
  ExpectSame("--data-path d --model=convnext_small", ours + " --model=convnext_small --drop_path=0.4");
  EXPECT_THAT(Pasted("--data-path d").notes,
              ElementsAre(StartsWith("as torchvision's train.py: batch_size 32, model resnet18, ")));
  const std::string vit = "--data-path d --model vit_b_16 --transformer-embedding-decay 0 ";
  EXPECT_THAT(MessageOf([&] { Pasted(vit); }), HasSubstr("same decay as norms"));
  EXPECT_THAT(Pasted(vit + "--norm-weight-decay 0.0 --bias-weight-decay 0").notes, Contains(HasSubstr("class token")));
}

}  // namespace
}  // namespace dtrain::config
