// LibTorch's archive writer ends the process if it cannot finish. So after a failed write its error is kept, the rest
// of the archive is discarded, and the error is thrown when the writer is done.
#include "trainer/checkpoint/torch_file.h"

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <exception>
#include <map>
#include <string_view>
#include <vector>

namespace dtrain::checkpoint {
namespace {

using TensorDict = c10::Dict<std::string, at::Tensor>;

// Copies each tensor to a storage of its own on the host. Tensors that share their memory share the copy.
TensorDict AsDict(const NamedTensors& tensors) {
  std::map<const void*, at::Tensor> copies;
  TensorDict dict;
  for (const auto& [name, tensor] : tensors) {
    at::Tensor& copy = copies[tensor.const_data_ptr()];
    const bool is_known = copy.defined() && copy.sizes() == tensor.sizes() && copy.dtype() == tensor.dtype();
    if (!is_known) copy = tensor.detach().to(at::kCPU).contiguous().clone(at::MemoryFormat::Contiguous);
    dict.insert(name, copy);
  }
  return dict;
}

c10::IValue AsValue(const nlohmann::ordered_json& json) {
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const auto& item : json) list.push_back(AsValue(item));
    return list;
  }
  if (!json.is_object()) return {};
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto& [name, value] : json.items()) dict.insert(name, AsValue(value));
  return dict;
}

// Returns the pickle of `value` without protocol and stop. Stores the storages to which it refers by number.
std::string Pickle(const c10::IValue& value, std::vector<at::Tensor>& storages) {
  std::string bytes;
  torch::jit::Pickler pickler([&bytes](const char* data, size_t size) { bytes.append(data, size); }, nullptr, nullptr,
                              nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.pushIValue(value);
  pickler.stop();
  bytes.pop_back();
  storages = pickler.tensorData();
  return bytes;
}

// LibTorch's pickler writes plain dicts only. Here its first byte, which makes an empty dict, is replaced by bytes that
// make an empty OrderedDict; the rest of the pickle fills either in the same way.
std::string PickleOfStateDict(const NamedTensors& tensors, const std::string& key, const nlohmann::ordered_json& beside,
                              std::vector<at::Tensor>& storages) {
  constexpr std::string_view kProtocol = "\x80\x02", kStop = ".", kEmptyDict = "}", kSetItem = "s";
  constexpr std::string_view kEmptyOrderedDict = "ccollections\nOrderedDict\n)R";  // a name, called with an empty tuple
  const std::string dict = Pickle(AsDict(tensors), storages);
  TORCH_INTERNAL_ASSERT(dict.starts_with(kEmptyDict));
  std::string bytes(kProtocol);
  std::vector<at::Tensor> none;
  if (!key.empty()) bytes.append(kEmptyDict).append(Pickle(key, none));
  bytes.append(kEmptyOrderedDict).append(dict, kEmptyDict.size());
  if (!key.empty()) bytes.append(kSetItem);
  for (const auto& [name, value] : beside.items()) {
    bytes.append(Pickle(name, none)).append(Pickle(AsValue(value), none)).append(kSetItem);
  }
  return bytes.append(kStop);
}

}  // namespace

void WriteTorchFile(const std::filesystem::path& path, const NamedTensors& tensors, const std::string& mark,
                    const std::string& key, const nlohmann::ordered_json& beside) {
  std::vector<at::Tensor> storages;
  const std::string pickle = PickleOfStateDict(tensors, key, beside, storages);
  WriteAtomically(path, [&](DurableFile& file) {
    std::exception_ptr failure;
    const auto append = [&](const void* data, size_t size) {
      try {
        if (!failure) file.Append(data, size);
      } catch (const std::exception&) {
        failure = std::current_exception();
      }
      return size;
    };
    {
      caffe2::serialize::PyTorchStreamWriter writer(append);
      constexpr std::string_view kWriter = "dtrain";
      writer.writeRecord(mark, kWriter.data(), kWriter.size());
      writer.writeRecord("data.pkl", pickle.data(), pickle.size());
      constexpr std::string_view kByteOrder = "little";
      writer.writeRecord("byteorder", kByteOrder.data(), kByteOrder.size());
      for (size_t i = 0; i < storages.size(); ++i) {
        writer.writeRecord("data/" + std::to_string(i), storages[i].const_data_ptr(), storages[i].storage().nbytes());
      }
      writer.writeEndOfFile();
    }
    if (failure) std::rethrow_exception(failure);
  });
}

TorchFileContent ReadTorchFile(const std::filesystem::path& path, data::WeightSet preferred) {
  const data::TorchFile file(path.string(), preferred);
  std::vector<at::Tensor> storages(file.storages().size());
  TorchFileContent content{
      .tensors = {}, .taken = file.taken(), .is_average = file.took_average(), .not_taken = file.not_taken()};
  for (const data::TorchTensor& tensor : file.tensors()) {
    const data::PickledTensor& view = tensor.view;
    at::Tensor& storage = storages[view.storage];
    if (!storage.defined()) {  // storages of tensors that are not taken (an optimizer's state) are never read
      const data::TorchStorage& place = file.storages()[view.storage];
      const at::TensorOptions options = ScalarTypeNamed(place.dtype).value();
      const auto elements = static_cast<int64_t>(place.bytes / options.dtype().itemsize());
      storage = at::empty({elements}, options);
      file.Read(view.storage, storage.mutable_data_ptr());
    }
    content.tensors.emplace_back(tensor.name,
                                 storage.as_strided(view.shape, view.strides, static_cast<int64_t>(view.offset)));
  }
  return content;
}

}  // namespace dtrain::checkpoint
