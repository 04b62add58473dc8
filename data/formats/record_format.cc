#include "data/formats/record_format.h"

#include "data/formats/recordio.h"
#include "data/formats/tfrecord.h"
#include "data/formats/webdataset.h"

namespace dtrain::data {

const RecordFormat* FindRecordFormat(const std::string& name) {
  static const TfRecordFormat tfrecord;
  static const RecordIoFormat recordio;
  static const WebDatasetFormat webdataset;
  for (const RecordFormat* format : std::initializer_list<const RecordFormat*>{&tfrecord, &recordio, &webdataset}) {
    if (format->name() == name) return format;
  }
  return nullptr;
}

}  // namespace dtrain::data
