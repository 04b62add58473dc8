// Runs the kernel's threads in a loop and compares with the resize of the CPU's decoders. There are more threads than
// pixels, as in the last block of a launch.
#include "data/kernels/resize_crops.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <opencv2/core.hpp>
#include <vector>

#include "data/image/resize.h"
#include "tests/data/image/encode.h"

namespace dtrain::data::kernels {
namespace {

constexpr int64_t kThreadsBeyondPixels = 7;
constexpr uint8_t kNotOurs = 77;

// All crops as rows of one size. After the end there is a value that must not change.
std::vector<uint8_t> RowsOfAllThreads(std::vector<Crop> crops, int side, bool cubic) {
  const size_t row = 3 * static_cast<size_t>(side) * side;
  std::vector<uint8_t> rows(row * crops.size() + 1, kNotOurs);
  for (size_t i = 0; i < crops.size(); ++i) crops[i].to = rows.data() + i * row;
  const ResizeArguments arguments{crops.data(), static_cast<int64_t>(crops.size()), side, cubic};
  for (int64_t thread = 0; thread < arguments.pixels() + kThreadsBeyondPixels; ++thread) ResizePixel(arguments, thread);
  EXPECT_EQ(rows.back(), kNotOurs);
  rows.pop_back();
  return rows;
}

Crop CropOf(const cv::Mat& image, bool mirror) { return {image.data, image.cols, image.rows, mirror, nullptr}; }

int LargestDifference(const cv::Mat& wanted, const uint8_t* row, bool mirror) {
  int largest = 0;
  for (int y = 0; y < wanted.rows; ++y) {
    for (int x = 0; x < wanted.cols; ++x) {
      const auto& pixel = wanted.at<cv::Vec3b>(y, mirror ? wanted.cols - 1 - x : x);
      for (int c = 0; c < 3; ++c) largest = std::max(largest, std::abs(pixel[c] - *row++));
    }
  }
  return largest;
}

TEST(ResizeCrops, ThreadsMakeWhatTheCpuMakes) {
  const std::vector<cv::Size> sizes = {{1, 1},   {1, 9},    {9, 1},     {2, 3},     {31, 32},  {32, 32},
                                       {33, 31}, {64, 128}, {500, 375}, {640, 427}, {37, 1200}};
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (const int side : {1, 7, 32, 96}) {
      std::vector<cv::Mat> images;
      std::vector<Crop> crops;
      for (size_t i = 0; i < sizes.size(); ++i) {
        images.push_back(TestPicture(sizes[i].width, sizes[i].height));
        crops.push_back(CropOf(images.back(), i % 2 == 1));
      }
      const auto rows = RowsOfAllThreads(crops, side, interpolation == Interpolation::kBicubic);
      for (size_t i = 0; i < sizes.size(); ++i) {
        const uint8_t* row = rows.data() + i * 3 * static_cast<size_t>(side) * side;
        EXPECT_LE(LargestDifference(Resize(images[i], side, side, interpolation), row, i % 2 == 1), 1)
            << sizes[i] << " to " << side;
      }
    }
  }
}

TEST(ResizeCrops, NoCropsNoThreads) { EXPECT_TRUE(RowsOfAllThreads({}, 32, false).empty()); }

TEST(ResizeCrops, WhatNobodyWroteIsFound) {
  for (const cv::Size size : {cv::Size{1, 1}, {7, 5}, {224, 224}}) {
    cv::Mat image(size, CV_8UC3, cv::Scalar::all(kUntouched));
    EXPECT_TRUE(IsUntouched(CropOf(image, false))) << size;
    image.data[image.total() * 3 - 1] = 0;
    EXPECT_FALSE(IsUntouched(CropOf(image, false))) << size;
    EXPECT_FALSE(IsUntouched(CropOf(TestPicture(size.width, size.height), false))) << size;
  }
}

}  // namespace
}  // namespace dtrain::data::kernels
