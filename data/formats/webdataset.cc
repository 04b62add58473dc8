// WebDataset: a tar in which neighbouring members with the same name up to the first dot form one sample: an image,
// such as KEY.jpg, with its label in KEY.cls (a number as text) or KEY.json, which has several classes or numbers, too.
//
// https://github.com/webdataset/webdataset (tariterators: how names are cut into key and extension, and grouped)
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/formats/labels.h"
#include "data/formats/record_format.h"
#include "data/formats/tar.h"
#include "data/image/codecs.h"
#include "data/shown.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostLabelBytes = uint64_t{1} << 20;
constexpr uint64_t kMostPadding = uint64_t{1} << 20;  // of zeros behind the last member; tar pads to 10,240 by itself

struct MemberName {
  std::string key, extension;  // the extension is in lower case; both are empty if the name belongs to no sample
};

MemberName Split(const std::string& name) {
  const size_t base = name.rfind('/') + 1;  // 0 if there is no slash
  const size_t dot = name.find('.', base);
  if (dot == std::string::npos || dot == base) return {};
  MemberName split{name.substr(0, dot), name.substr(dot + 1)};
  for (char& c : split.extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return split;
}

// The members of one sample that are used here.
struct Sample {
  std::string key;
  uint64_t begin = 0, end = 0;
  std::optional<TarMember> image, cls, json;

  bool complete() const { return image && (cls || json); }

  void Add(const TarMember& member, const std::string& extension) {
    const bool is_image = IsImage("." + extension) && extension.find('.') == std::string::npos;
    auto& place = is_image ? image : extension == "cls" ? cls : json;
    if (!is_image && extension != "cls" && extension != "json") return;
    if (place)
      throw DataError("sample " + key + (is_image ? " has two images, one is ." : " has two members .") + extension);
    place = member;
  }
};

// Returns the next sample at or after `offset`: the members that share a key. Empty if no other file follows. Throws
// DamagedRecord.
std::optional<Sample> ReadSample(const ReadableBytes& archive, uint64_t offset) {
  std::optional<Sample> sample;
  try {
    while (const auto member = ReadTarMember(archive, offset)) {
      const MemberName name = member->is_file ? Split(member->name) : MemberName{};
      if (sample && !name.key.empty() && name.key != sample->key) break;
      if (!name.key.empty()) {
        if (!sample) sample = Sample{.key = name.key, .begin = offset, .end = 0, .image = {}, .cls = {}, .json = {}};
        sample->Add(*member, name.extension);
        sample->end = member->end;
      }
      offset = member->end;
    }
  } catch (const DamagedRecord&) {
    // Damage behind a complete sample belongs to the next one.
    if (!sample || !sample->complete()) throw;
  }
  // Without the blocks of zeros that end an archive, or with more than tar writes: space that a broken copy had
  // reserved.
  const bool is_cut = offset == archive.size() || archive.size() - offset > kMostPadding;
  if (sample && !sample->complete() && is_cut) {
    throw DamagedRecord("truncated: the archive ends within sample " + sample->key, archive.size());
  }
  return sample;
}

std::string ReadText(const ReadableBytes& archive, const TarMember& member) {
  if (member.data_bytes > kMostLabelBytes)
    throw DataError("a label of " + std::to_string(member.data_bytes) + " bytes");
  return std::string(AsText(archive.ReadBytes(member.data_begin, member.data_bytes)));
}

double ParseNumber(const Sample& sample, const std::string& text) {
  if (const auto number = DecimalNumber(Stripped(text))) return *number;
  throw DataError("sample " + sample.key + ": its .cls is '" + Shown(text, 32) + "', not a number",
                  "labels are numbers from 0; put the names of classes into classes.txt");
}

// Returns the numbers of a label in JSON: a number, a list of them, or an object that has one of these under a usual
// key. Empty if it is anything else.
std::optional<std::vector<double>> ParseJson(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"label", "cls", "labels", "target"}) {
    if (!json.is_object() || !json.contains(key) || !(json[key].is_number() || json[key].is_array())) continue;
    json = nlohmann::json(std::move(json[key]));
    break;
  }
  if (json.is_number()) return std::vector{json.get<double>()};
  if (!json.is_array()) return std::nullopt;
  std::vector<double> values;
  for (const auto& value : json) {
    if (!value.is_number()) return std::nullopt;
    values.push_back(value.get<double>());
  }
  return values;
}

// Returns -1 for a number that is no class.
int64_t ClassOf(double number) {
  const bool is_class = std::floor(number) == number && std::abs(number) <= std::numeric_limits<int32_t>::max();
  return is_class ? static_cast<int64_t>(number) : -1;
}

// Sets what the label says: the class is in `.cls` if there is one, and more than a class is in `.json`.
void AddLabel(const ReadableBytes& archive, const Sample& sample, ScannedRecord& record) {
  if (!sample.image) {
    throw DataError("sample " + sample.key + " has no image", "expected KEY with one of " + ImageExtensions());
  }
  if (!sample.cls && !sample.json) {
    throw DataError("sample " + sample.key + " has no label", "expected KEY.cls or KEY.json beside the image");
  }
  std::optional<double> number;
  if (sample.cls) number = ParseNumber(sample, ReadText(archive, *sample.cls));
  std::optional<std::vector<double>> values;
  const bool is_beside = sample.cls && sample.json && sample.json->data_bytes > kMostLabelBytes;  // it is no label
  if (sample.json && !is_beside) values = ParseJson(ReadText(archive, *sample.json));
  if (!sample.cls && !values) {
    throw DataError("sample " + sample.key +
                    ": its .json is neither a number or a list of numbers, nor an object with one of these as `label`, "
                    "`labels`, `cls` or `target`");
  }
  record.values = values ? std::move(*values) : std::vector{*number};
  if (!number && record.values.size() == 1) number = record.values[0];
  record.label = number ? ClassOf(*number) : -1;
}

class WebDatasetFormat : public RecordFormat {
 public:
  std::string name() const override { return "webdataset"; }
  std::string description() const override { return "tar files of WebDataset"; }
  std::vector<std::string> extensions() const override { return {".tar"}; }
  bool Holds(LabelKind /*kind*/) const override { return true; }

  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override {
    const auto sample = ReadSample(file, offset);
    if (!sample) return std::nullopt;
    ScannedRecord record{sample->begin, sample->end};
    AddLabel(file, *sample, record);
    return record;
  }

  // The remainder of a damaged sample lacks the image or the label, so that Scan throws.
  Beginning beginning() const override { return {.bytes = kTarBlock, .alignment = kTarBlock}; }
  bool MayBegin(const uint8_t* bytes) const override { return IsTarHeader(bytes); }

  bool MayEnd(const ReadableBytes& file, uint64_t offset) const override {
    while (const auto member = ReadTarMember(file, offset)) offset = member->end;
    return offset < file.size();
  }

  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override {
    const auto sample = ReadSample(MemoryBytes(record), 0);
    if (!sample || !sample->image) throw DamagedRecord("no image where the index has one");
    return PartOf(std::move(record), sample->image->data_begin, sample->image->data_bytes);
  }

  std::string FileName(const std::string& split, int64_t number, int64_t /*count*/) const override {
    return split + "-" + WithZeros(number, 6) + ".tar";
  }

  // The key is the index.
  std::string Frame(const PackedImage& image) const override {
    const Codec* codec = FindCodec(image.bytes);
    const std::string key = WithZeros(image.index, 9);
    const std::string member = MakeTarMember(
        key + std::string(codec == nullptr || codec->size == nullptr ? ".jpg" : codec->extensions.front()),
        AsText(image.bytes));
    if (image.kind == LabelKind::kClass) {
      return member + MakeTarMember(key + ".cls", std::to_string(image.label + first_label()));
    }
    nlohmann::json label = nlohmann::json::array();
    for (const float value : image.values) {
      image.kind == LabelKind::kNumbers ? label.push_back(value)
                                        : label.push_back(static_cast<int64_t>(value) + first_label());
    }
    return member + MakeTarMember(key + ".json", nlohmann::json{{"label", label}}.dump());
  }

  std::string FileEnd() const override { return MakeTarEnd(); }
};

}  // namespace

const RecordFormat& WebDatasetFiles() {
  static const WebDatasetFormat format;
  return format;
}

}  // namespace dtrain::data
