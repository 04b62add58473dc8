// Files of weights, of whatever program: safetensors, and what torch.save writes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"

namespace dtrain::loop {

// Where the weights are that a path names: a file, or a folder as Hugging Face's save_pretrained leaves it.
struct WeightsPlace {
  std::string file;
  std::string model_config = {};  // the content of the folder's config.json; empty: there is none
};

// Throws UsageError where there is nothing of the kind.
WeightsPlace FindWeights(const std::string& path);

// A whole file. Of one with several sets of weights (torch.save's of a training) `which` says whether the averaged one
// (ema) is preferred; what was taken is said. Throws DataError where the file is damaged or asks for more than tensors,
// UsageError where it cannot have an averaged set.
checkpoint::SafetensorsContent ReadWeightsFile(const std::string& file, const std::string& which);

// Its shapes by name, without reading tensors; and its metadata, where it has any.
struct WeightsHeader {
  std::map<std::string, std::vector<int64_t>> shapes;
  checkpoint::Metadata metadata;
};
WeightsHeader ReadWeightsHeader(const std::string& file);

// Takes off what other programs put in front of all names ("module.", "_orig_mod.", "model.", several of them too), and
// the counter that averaging adds to them; returns what was in front.
std::string TakeOffWrappers(checkpoint::NamedTensors& weights);

// Whose names they have: torchvision, timm, hf or fairseq; empty where that makes no difference (a ResNet's), or
// nobody's.
std::string NamingIn(const checkpoint::NamedTensors& weights);

}  // namespace dtrain::loop
