// The protobuf inside a TFRecord.
#include "data/formats/tfrecord.h"

#include "data/error.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtrain;
  try {
    const data::ImageExample example = data::ParseImageExample({data, size});
    if (example.image && !example.image->empty()) {
      const uint8_t* const begin = example.image->data();
      fuzz::Require(begin >= data && begin + example.image->size() <= data + size, "the image lies outside the input");
    }
    if (!example.image || !example.label) return 0;
    const data::PackedImage image{
        .bytes = *example.image, .label = *example.label, .class_name = "class", .file_name = "file"};
    const std::string written = data::MakeImageExample(image, 0);
    const auto again = data::ParseImageExample({reinterpret_cast<const uint8_t*>(written.data()), written.size()});
    fuzz::Require(again.label == example.label && again.image && again.image->size() == image.bytes.size(),
                  "what is written is not what is read");
  } catch (const DataError&) {
    return 0;
  }
  return 0;
}
