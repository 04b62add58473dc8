// Commands of programs for images, as published on the pages from which people copy them.
#include "trainer/config/aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/foreign_commands.h"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

TEST(ImageAliases, AwsImageNetScripts) {
  ExpectSame(
      "-b 256 --num_epochs 90 --lr_decay_mode poly --warmup_epochs 10 --clear_log --log_dir results --mom=0.9 "
      "--wd=5e-5",
      "--batch_size=256 --epochs=90 --lr_schedule=poly --poly_power=2 --end_lr=1e-5 --warmup_epochs=10 --clear_log "
      "--run_dir=results --momentum=0.9 --weight_decay=5e-5");
  ExpectSame("--synthetic", "--data_format=synthetic");
}

TEST(ImageAliases, TorchvisionsReference) {
  ExpectSame(
      "--data-path=imagenet --model=resnet50 --batch-size=128 --lr=0.5 --lr-scheduler=cosineannealinglr "
      "--lr-warmup-epochs=5 --lr-warmup-method=linear --auto-augment=ta_wide --epochs=600 --random-erase=0.1 "
      "--label-smoothing=0.1 --mixup-alpha=0.2 --cutmix-alpha=1.0 --weight-decay=2e-5 --norm-weight-decay=0.0 "
      "--train-crop-size=176 --val-resize-size=232 --ra-sampler --ra-reps=4 --amp -j 8 --opt=sgd",
      "--data_dir=imagenet --model=resnet50 --batch_size=128 --lr=0.5 --lr_schedule=cosine --warmup_epochs=5 "
      "--augment=trivialaugment --augment_interpolation=bilinear --epochs=600 --random_erasing=0.1 "
      "--label_smoothing=0.1 --mixup=0.2 --cutmix=1 --weight_decay=2e-5 --nodecay_norm_and_bias "
      "--warmup_start_lr=0.005 --lr_per_epoch --lr_decay_epochs=30 --image_size=176 --eval_image_size=224 "
      "--eval_resize=232 --log_interval=10 --repeated_augmentation=4 --precision=amp --workers=8 --optimizer=sgd");
  ExpectSame("--lr-warmup-decay=0.01 --lr 0.5 --val-crop-size=192 --defaults_of=none",
             "--warmup_start_lr=0.005 --lr=0.5 --eval_image_size=192 --defaults_of=none");
}

// The command of the AWS walk-through of 256 GPUs.
TEST(ImageAliases, HorovodsScriptOfTheWalkThrough) {
  ExpectSame(
      "-m resnet50 --fp16 --num_epochs 90 --warmup_epochs 5 --adv_bn_init --display_every 100 --loss_scale 256. "
      "--data_dir imagenet_data --lr 3.7 --log_dir results --hue 0.13 --mom 0.977 --wdecay 0.0005 --batch_size 256 "
      "--adv_conv_init --lr_decay_mode linear_cosine --eval_interval 10 --leta 0.012 --save_checkpoints_steps 190",
      "--model=resnet50 --precision=fp16 --epochs=90 --warmup_epochs=5 --zero_init_residual --log_interval=100 "
      "--loss_scale=256. --data_dir=imagenet_data --lr=3.7 --run_dir=results --momentum=0.977 --weight_decay=0.0005 "
      "--batch_size=256 --lr_schedule=linear_cosine --cosine_periods=0.47 --cosine_beta=1e-5 --lars_trust=0.012 "
      "--eval_every_epochs=10");
  ExpectSame("--use_larc --lc_periods=0.4 --increased_aug",
             "--optimizer=lars --lars_clip --lars_trust=0.013 --decay_norm_and_bias --lr=3.7 --cosine_periods=0.4 "
             "--color_jitter=0,0.4,0.4,0.065");
}

TEST(ImageAliases, TorchelasticsExample) {
  ExpectSame("--arch resnet18 --epochs 20 --batch-size 32 -p 5 imagenet",
             "--model=resnet18 --epochs=20 --batch_size=32 --log_interval=5 --data_dir=imagenet");
  ExpectSame("imagenet --defaults_of=none", "--data_dir=imagenet --defaults_of=none");
  ExpectSame("imagenet -a resnet18", "--model=resnet18 --data_dir=imagenet");
}

TEST(ImageAliases, NvidiasConvNets) {
  ExpectSame(
      "imagenet --arch efficientnet-b0 --data-backend dali-gpu --optimizer-batch-size 4096 -b 128 --lr-schedule linear "
      "--warmup 16 --bn-weight-decay --static-loss-scale 128 --amp --memory-format nhwc --workspace results "
      "--raport-file raport.json --augmentation autoaugment",
      "--data_dir=imagenet --model=efficientnet_b0 --global_batch_size=4096 --batch_size=128 --lr_schedule=poly "
      "--poly_power=1 --warmup_epochs=16 --decay_norm_and_bias --loss_scale=128 --precision=amp --channels_last "
      "--run_dir=results --augment=autoaugment");
  ExpectSame("--mode=convergence --precision=AMP", "--mode=train --precision=amp");
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
  ExpectSame("--sched=step --lr=0.4 --epochs 100 --no-aug",
             WithDefaultsOfTimm("--lr_schedule=step --lr_decay_epochs=90 --lr=0.4 --lr_base_batch=0 --epochs=100 "
                                "--augment=none --color_jitter=0 --interpolation=bicubic"));
  ExpectSame(
      "--opt=adamw --img-size=192 --amp --amp-dtype=bfloat16",
      WithDefaultsOfTimm(
          "--optimizer=adamw --nonesterov --lr_scaling=sqrt --image_size=192 --eval_resize=202 --precision=bf16"));
  ExpectSame("--model=efficientnet_b1 --smoothing=0",
             WithDefaultsOfTimm(
                 "--model=efficientnet_b1 --label_smoothing=0 --image_size=240 --eval_resize=266 --mean=0.5,0.5,0.5 "
                 "--std=0.5,0.5,0.5 --dropout=0 --drop_path=0 --bn_eps=1e-5 --bn_momentum=0.1 --nozero_init_residual"));
}

TEST(ImageAliases, Timm) {
  ExpectSame(
      "--sched step --decay-epochs 2.4 --decay-rate .97 --min-lr 1e-5 --reprob 0.2 --remode const --smoothing 0.2 "
      "--native-amp --drop 0.2 --clip-grad 1 --warmup-prefix --warmup-epochs 3 --epochs 10 --torchcompile inductor "
      "imagenet",
      WithDefaultsOfTimm("--lr_schedule=step --lr_decay_epochs=2.4 --lr_decay_factor=0.97 --end_lr=1e-5 "
                         "--random_erasing=0.2 --label_smoothing=0.2 --precision=amp --dropout=0.2 --clip_norm=1 "
                         "--noschedule_through_warmup --warmup_epochs=3 --epochs=13 --data_dir=imagenet"));
  ExpectSame("--opt-eps 1e-3 --opt rmsproptf --crop-pct=0.875 --opt-betas 0.8 0.99",
             WithDefaultsOfTimm(
                 "--rmsprop_eps=1e-3 --optimizer=rmsprop_tf --nonesterov --eval_resize=256 --adam_betas=0.8,0.99"));
  ExpectSame("--sched=cosine --scale 0.35 1 --ratio 1 1 --hflip 0 --model-ema",
             WithDefaultsOfTimm("--crop_scale=0.35,1 --crop_ratio=1,1 --hflip=0 --ema_decay=0.9998 --ema_start=none"));
  ExpectSame("--sched=cosine --model-ema --model-ema-decay=0.999 --model-ema-warmup --model-ema-force-cpu",
             WithDefaultsOfTimm("--ema_decay=0.999 --ema_start=timm --best_of=raw"));
  ExpectSame("--sched=cosine --model-ema-decay=0.999 --model-ema-force-cpu",
             WithDefaultsOfTimm(""));  // no average
  ExpectSame("--sched=multistep --decay-milestones 30 60",
             WithDefaultsOfTimm("--lr_schedule=step --lr_decay_epochs=29,59"));
  ExpectSame("--sched=poly --lr-base=0.2 --lr-base-size 512 --sched-on-updates",
             WithDefaultsOfTimm("--lr_schedule=poly --poly_power=0.1 --lr=0.2 --lr_base_batch=512 --nolr_per_epoch"));
}

TEST(ImageAliases, TorchvisionsDefaultsStandBehindItsCommands) {
  const std::string ours =
      "--data_dir=d --model=resnet18 --batch_size=32 --lr=0.1 --lr_schedule=step --lr_decay_epochs=30 --lr_per_epoch "
      "--image_size=224 --eval_image_size=224 --eval_resize=256 --log_interval=10";
  ExpectSame("--data-path d", ours);
  ExpectSame("--data-path=d --opt=sgd_nesterov --ra-reps=4", ours + " --nesterov");  // repeated with --ra-sampler only
  EXPECT_THAT(Pasted("--data-path d").notes,
              ElementsAre(StartsWith("as torchvision's train.py: batch_size 32, model resnet18, ")));
}

}  // namespace
}  // namespace dtrain::config
