#include "data/formats/tensor_pickle.h"

#include "data/formats/pickle_machine.h"

namespace dtrain::data {

TensorPickle::TensorPickle(std::span<const uint8_t> bytes, const std::string& path) {
  PickleMachine(bytes, path, *this).Run();
}

}  // namespace dtrain::data
