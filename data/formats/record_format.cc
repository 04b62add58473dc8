#include "data/formats/record_format.h"

#include "data/formats/recordio.h"
#include "data/formats/tfrecord.h"
#include "data/formats/webdataset.h"

namespace dtrain::data {

const std::vector<const RecordFormat*>& RecordFormats() {
  static const TfRecordFormat tfrecord;
  static const RecordIoFormat recordio;
  static const WebDatasetFormat webdataset;
  static const std::vector<const RecordFormat*> formats = {&tfrecord, &recordio, &webdataset};
  return formats;
}

const RecordFormat* FindRecordFormat(const std::string& name) {
  for (const RecordFormat* format : RecordFormats()) {
    if (format->name() == name) return format;
  }
  return nullptr;
}

}  // namespace dtrain::data
