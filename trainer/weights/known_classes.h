// What the labels of a model mean is the training split's to say, and belongs to the weights from then on: the classes
// travel in every checkpoint and in the metadata of every file of weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/classes.h"
#include "trainer/checkpoint/safetensors.h"

namespace dtrain::loop {

nlohmann::json ToJson(const data::Classes& classes);
// Nothing is known from null. Throws StorageError naming `where` where the JSON is something else.
data::Classes ClassesFromJson(const nlohmann::json& json, const std::string& where);

// As metadata of a safetensors file: class_names (a JSON list), num_classes and label_offset, as far as they are known.
void AddTo(checkpoint::Metadata& metadata, const data::Classes& classes);
data::Classes ClassesFrom(const checkpoint::Metadata& metadata, const std::string& where);

// The names as they come back from JSON: what is no UTF-8 is replaced there.
std::vector<std::string> AsKept(const std::vector<std::string>& names);

// Throws DataError where both know the names and these differ.
void RequireSameNames(const data::Classes& checkpoint, const data::Classes& now);

// "4: cat, dog, …"; "10, without names". At most five names.
std::string Describe(const data::Classes& classes);

// The content of classes.txt.
std::string ClassesText(const std::vector<std::string>& names);

}  // namespace dtrain::loop
