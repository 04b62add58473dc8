#include "data/formats/torch_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "data/error.h"
#include "data/formats/safetensors_file.h"
#include "data/joined.h"
#include "data/shallow_json.h"
#include "data/shown.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostPickleBytes = 64 << 20;  // enough: a model of a billion parameters has a pickle of about 1 MiB
constexpr size_t kShownKeyBytes = 80;
constexpr std::string_view kZipStart = "PK\x03\x04";
constexpr std::string_view kPickle = "/data.pkl";

// A file from before PyTorch 1.6 begins with a pickle of this number (80 bits), one of the format's version, and one
// that describes the machine.
constexpr std::string_view kLegacyMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t kLegacyVersion = 1001;

// The keys under which timm, torchvision and other programs save weights.
constexpr std::array<std::string_view, 6> kRawKeys = {"state_dict", "model", "model_state_dict",
                                                      "module",     "net",   "params"};
constexpr std::array<std::string_view, 5> kAverageKeys = {"state_dict_ema", "model_ema", "ema", "ema_state_dict",
                                                          "params_ema"};

// Returns what a dict, or an object, has under a key; nothing if it has none.
PickledValue Under(const TensorPickle& pickle, const PickledValue& value, std::string_view key) {
  if (value.kind != PickledKind::kDict && value.kind != PickledKind::kObject) return {};
  const auto& items = pickle.items(value);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == PickledKind::kText && items[i].text == key) return items[i + 1];
  }
  return {};
}

uint64_t StoredElementBytes(std::string_view dtype) {
  return static_cast<uint64_t>(SafetensorsElementSize(dtype).value());
}

uint32_t ZipChecksum(std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(crc32_z(0, bytes.data(), bytes.size()));
}

}  // namespace

void TorchFile::Refuse(const std::string& reason, const std::string& hint) const {
  throw DataError(path() + " cannot be read as weights: " + reason, hint);
}

bool TorchFile::Recognises(const std::string& path) {
  try {
    const RandomAccessFile file(path);
    std::array<char, 16> start{};
    file.Read(0, std::min<uint64_t>(file.size(), start.size()), start.data());
    const std::string_view bytes(start.data(), start.size());
    // A safetensors file begins with the length of its header, which may have the same bytes, but its ninth byte is a
    // brace.
    const bool is_pickle = bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
    return bytes[8] != '{' && (is_pickle || bytes.starts_with(kZipStart));
  } catch (const DataError&) {
    return false;
  }
}

TorchFile::TorchFile(const std::string& path, WeightSet preferred) : file_(path) {
  std::array<char, 4> start{};
  if (file_.size() < start.size()) Refuse("it has only " + std::to_string(file_.size()) + " bytes", "get it again");
  file_.Read(0, start.size(), start.data());
  const bool is_archive = std::string_view(start.data(), start.size()) == kZipStart;
  std::vector<uint8_t> bytes;
  const TensorPickle pickle = is_archive ? OpenArchive(bytes) : OpenLegacy(bytes);
  Choose(pickle, preferred);
  KeepArguments(pickle);
}

TensorPickle TorchFile::OpenArchive(std::vector<uint8_t>& pickle_bytes) {
  const std::map<std::string, StoredMember> members = ReadStoredZip(file_, path());
  // All members are in one folder, which may have any name.
  const auto is_pickle = [](const auto& item) { return item.first.ends_with(kPickle); };
  const auto found = std::find_if(members.begin(), members.end(), is_pickle);
  if (found == members.end()) Refuse("no data.pkl is in it", "name a file that torch.save has written");
  const std::string folder = found->first.substr(0, found->first.size() - kPickle.size());
  if (members.contains(folder + "/constants.pkl")) {
    Refuse("it is a TorchScript program, not weights", "save what model.state_dict() returns");
  }
  // torch.serialization.set_crc32_options(False) leaves them out, so that all are 0.
  const bool has_checksums = std::ranges::any_of(members, [](const auto& item) { return item.second.crc32 != 0; });
  const auto whole = [&](const StoredMember& member) {
    if (member.size > kMostPickleBytes) Refuse("a pickle of " + std::to_string(member.size) + " bytes", "");
    std::vector<uint8_t> bytes = file_.ReadBytes(member.begin, member.size);
    if (has_checksums && ZipChecksum(bytes) != member.crc32)
      Refuse("the checksum of its pickle is wrong", "it is damaged: get it again");
    return bytes;
  };
  if (const auto order = members.find(folder + "/byteorder"); order != members.end()) {
    const std::vector<uint8_t> bytes = whole(order->second);
    if (AsText(bytes) != "little") {
      Refuse("it was written on a big-endian machine", "save it again on a little-endian one");
    }
  }
  pickle_bytes = whole(found->second);
  TensorPickle pickle(pickle_bytes, path());
  for (const PickledStorage& storage : pickle.storages()) {
    const auto member = members.find(folder + "/data/" + std::string(storage.key));
    const std::string shown = Shown(storage.key, kShownKeyBytes);
    if (member == members.end()) Refuse("the storage " + shown + " is missing", "it is incomplete: get it again");
    const StoredMember& place = member->second;
    const uint64_t width = StoredElementBytes(storage.dtype);
    if (place.size % width != 0 || place.size / width != storage.elements) {
      Refuse("the storage " + shown + " has " + std::to_string(place.size) + " bytes", "it is damaged: get it again");
    }
    storages_.push_back({std::string(storage.dtype), place.begin, place.size,
                         has_checksums ? std::optional(place.crc32) : std::nullopt});
  }
  return pickle;
}

TensorPickle TorchFile::OpenLegacy(std::vector<uint8_t>& pickle_bytes) {
  pickle_bytes = file_.ReadBytes(0, std::min(file_.size(), kMostPickleBytes));
  std::span<const uint8_t> rest = pickle_bytes;
  const auto next = [&] {
    TensorPickle pickle(rest, path());
    rest = rest.subspan(pickle.size());
    return pickle;
  };
  const std::string hint = "name a file that torch.save has written, or a safetensors file";
  if (next().value().text != kLegacyMagic) Refuse("it is a pickle, but not one of torch.save", hint);
  if (next().value().number != kLegacyVersion) Refuse("its format has a version that is not known", hint);
  const TensorPickle machine = next();
  if (machine.value().kind == PickledKind::kDict) {
    const auto& items = machine.items(machine.value());
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].text == "little_endian" && items[i + 1].number == 0) {
        Refuse("it was written on a big-endian machine", "save it again on a little-endian one");
      }
    }
  }
  TensorPickle pickle = next();
  const TensorPickle keys = next();
  if (keys.value().kind != PickledKind::kSequence) Refuse("the list of its storages is missing", "get it again");

  std::map<std::string_view, size_t> by_key;
  for (const PickledStorage& storage : pickle.storages()) by_key.emplace(storage.key, by_key.size());
  storages_.resize(by_key.size());
  uint64_t at = pickle_bytes.size() - rest.size();
  for (const PickledValue& key : keys.items(keys.value())) {
    const auto found = by_key.find(key.text);
    if (found == by_key.end() || key.kind != PickledKind::kText)
      Refuse("it holds a storage that its pickle does not mention", "get it again");
    const PickledStorage& storage = pickle.storages()[found->second];
    const std::string shown = Shown(storage.key, kShownKeyBytes);
    uint64_t elements = 0;
    if (file_.size() - at < sizeof elements) Refuse("the storage " + shown + " is missing", "get it again");
    file_.Read(at, sizeof elements, &elements);
    at += sizeof elements;
    const uint64_t width = StoredElementBytes(storage.dtype);
    if (elements != storage.elements || elements > (file_.size() - at) / width) {
      Refuse("the storage " + shown + " is incomplete", "get it again");
    }
    storages_[found->second] = {std::string(storage.dtype), at, elements * width, std::nullopt};
    at += elements * width;
    by_key.erase(found);
  }
  if (!by_key.empty()) Refuse("storages of it are missing", "get it again");
  return pickle;
}

bool TorchFile::took_average() const { return std::ranges::count(kAverageKeys, taken_) != 0; }

// The tensors are in the outermost dict, or in dicts under its keys.
void TorchFile::Choose(const TensorPickle& pickle, WeightSet preferred) {
  const PickledValue& top = pickle.value();
  const auto tensors_of = [&](const PickledValue& dict) {
    if (dict.kind != PickledKind::kDict) return std::ptrdiff_t{0};
    return std::ranges::count(pickle.items(dict), PickledKind::kTensor, &PickledValue::kind);
  };
  const std::string hint = "save what model.state_dict() returns";
  if (top.kind != PickledKind::kDict) Refuse("it holds no dict of tensors", hint);
  std::map<std::string_view, PickledValue> dicts;
  const auto& items = pickle.items(top);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == PickledKind::kText && tensors_of(items[i + 1]) > 0) dicts[items[i].text] = items[i + 1];
  }
  const auto take = [&](const auto& keys) {
    if (!taken_.empty()) return;
    for (const std::string_view key : keys) {
      if (!dicts.contains(key)) continue;
      taken_ = key;
      return;
    }
  };
  if (preferred == WeightSet::kAverage) take(kAverageKeys);
  take(kRawKeys);
  take(kAverageKeys);
  if (taken_.empty() && tensors_of(top) > 0) return TakeTensors(pickle, top);
  if (taken_.empty() && dicts.size() == 1) taken_ = dicts.begin()->first;
  if (taken_.empty()) {
    const std::string names = Joined(dicts, ", ", [](const auto& dict) { return Shown(dict.first, kShownKeyBytes); });
    Refuse(dicts.empty() ? "it holds no dict of tensors" : "it holds several: " + names, hint + " of one model");
  }
  for (const auto& [name, dict] : dicts) {
    if (name != taken_) not_taken_.emplace_back(name);
  }
  TakeTensors(pickle, dicts[taken_]);
}

// timm has them beside the weights (arch) and, as torchvision and older versions of fairseq, under args; newer ones of
// fairseq under model in cfg.
void TorchFile::KeepArguments(const TensorPickle& pickle) {
  auto kept = nlohmann::json::object();
  for (const PickledValue& arguments : {pickle.value(), Under(pickle, pickle.value(), "args"),
                                        Under(pickle, Under(pickle, pickle.value(), "cfg"), "model")}) {
    if (arguments.kind != PickledKind::kDict && arguments.kind != PickledKind::kObject) continue;
    const auto& items = pickle.items(arguments);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickledValue& value = items[i + 1];
      const std::string name(items[i].text);
      if (value.kind == PickledKind::kBool) kept[name] = value.number != 0;
      if (value.kind == PickledKind::kInteger) kept[name] = value.number;
      if (value.kind == PickledKind::kText) kept[name] = value.text;
    }
  }
  if (!kept.empty()) arguments_ = JsonText(kept);
}

void TorchFile::TakeTensors(const TensorPickle& pickle, const PickledValue& dict) {
  const auto& items = pickle.items(dict);
  std::set<std::string_view> names;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i + 1].kind != PickledKind::kTensor) continue;  // such as a counter or an extra state
    const std::string shown = Shown(items[i].text, kShownKeyBytes);
    if (items[i].kind != PickledKind::kText) Refuse("a tensor has no name", "save what model.state_dict() returns");
    if (!names.insert(items[i].text).second) Refuse("the tensor " + shown + " is there twice", "get the file again");
    tensors_.push_back({std::string(items[i].text), pickle.tensor(items[i + 1])});
  }
}

void TorchFile::Read(size_t storage, void* destination) const {
  const TorchStorage& place = storages_[storage];
  file_.Read(place.begin, place.bytes, destination);
  if (!place.crc32) return;
  if (ZipChecksum({static_cast<const uint8_t*>(destination), place.bytes}) != *place.crc32) {
    Refuse("the checksum of a tensor is wrong", "the file is damaged: get it again");
  }
}

}  // namespace dtrain::data
