// What the outputs of a model mean: the classes that it was trained on, or the scale of the numbers that it predicts.
// The training split defines it, so it is stored with the weights, in every checkpoint and in the metadata of every
// file of weights, and nobody needs the training data to use them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/record_source.h"
#include "trainer/checkpoint/safetensors.h"

namespace dtrain::weights {

nlohmann::json ToJson(const data::Classes& classes);
// Returns unknown classes for null. Throws StorageError naming `where` (a file or checkpoint) for other JSON.
data::Classes ClassesFromJson(const nlohmann::json& json, const std::string& where);

// Add and read the metadata of a safetensors file: class_names (a JSON list), num_classes, label_offset and text_pairs
// if known. For files of other programs ClassesFrom takes the names in the id2label of their model's config, if it has
// them; it throws StorageError if the metadata is damaged.
void AddTo(checkpoint::Metadata& metadata, const data::Classes& classes);
data::Classes ClassesFrom(const checkpoint::Metadata& metadata, const std::string& where);

// Throws DataError if the names of both are known and differ.
void RequireSameNames(const data::Classes& checkpoint, const data::Classes& now);

// Returns a text such as "4: cat, dog, …" with at most five names, or "10, without names".
std::string Describe(const data::Classes& classes);

// Returns the content of classes.txt.
std::string ClassesText(const std::vector<std::string>& names);

// Of --task=image_regression: the means and standard deviations of the numbers in the training split. An output of the
// model is (number - mean) / deviation. Empty: it is the number itself.
struct NumberScale {
  std::vector<double> means = {}, deviations = {};
  bool operator==(const NumberScale&) const = default;
};

// Its key in metadata and in state.json, with JSON as a text.
inline constexpr char kNumberScaleKey[] = "number_scale";

std::string ToText(const NumberScale& scale);
// Returns the scale that is stored with weights, or an empty one. Throws StorageError naming `where` if it is damaged.
NumberScale ScaleFrom(const checkpoint::Metadata& metadata, const std::string& where);

// Throws StorageError unless the scale is of so many numbers, or empty.
void RequireScaleOf(int64_t outputs, const NumberScale& scale);

// Lets weights that predict numbers on the scale `from` predict them on the scale `to`: changes the layers of the
// module `head`.
void ChangeScale(const NumberScale& from, const NumberScale& to, const std::string& head,
                 checkpoint::NamedTensors& weights);

}  // namespace dtrain::weights
