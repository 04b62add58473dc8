// The classes that a model was trained on. The training split defines what its labels mean, so the classes are stored
// with the weights, in every checkpoint and in the metadata of every file of weights.
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

}  // namespace dtrain::weights
