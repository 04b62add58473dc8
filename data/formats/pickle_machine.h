// The stack machine that executes a pickle, limited to the instructions that weights need.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/formats/tensor_pickle.h"

namespace dtrain::data {

class PickleMachine {
 public:
  // All arguments must outlive this object.
  PickleMachine(std::span<const uint8_t> bytes, const std::string& path, TensorPickle& pickle)
      : bytes_(bytes), path_(path), pickle_(pickle) {}

  // Executes the pickle up to its STOP and fills `pickle`. Throws DataError.
  void Run();

 private:
  [[noreturn]] void Refuse(const std::string& reason, const std::string& hint) const;
  [[noreturn]] void Damaged(const std::string& reason) const;

  // These take from the front of the bytes that are left.
  std::span<const uint8_t> Take(uint64_t size);
  std::string_view Text(uint64_t size);
  std::string_view Line();
  template <typename T>
  T Number();

  // The stack. Values below the last mark cannot be reached.
  // Counts everything that is kept and refuses more than a limit: an instruction takes a byte or two, a value many
  // more.
  void Count();
  void Push(const PickledValue& value);
  void PushText(PickledKind kind, std::string_view text) { Push({.kind = kind, .text = text}); }
  void PushInteger(int64_t number) { Push({.kind = PickledKind::kInteger, .number = number}); }
  void PushLong(std::string_view bytes);
  void PushContainer(PickledKind kind, std::vector<PickledValue> values);
  PickledValue Pop();
  PickledValue& Top();
  std::vector<PickledValue> PopMarked();
  std::vector<PickledValue> PopSome(size_t count);
  void Remember(uint32_t place);
  void Recall(uint32_t place);
  void AddToTop(PickledKind kind, const std::vector<PickledValue>& values);

  // What each instruction does; null for one that weights do not need.
  using Instruction = void (*)(PickleMachine& machine);
  static const std::array<Instruction, 256>& Instructions();
  void RequireProtocol(uint8_t protocol) const;

  // Names and the objects they make (pickle_calls.cc).
  void PushName(std::string_view module, std::string_view name);
  void Call(const std::vector<PickledValue>& name_and_arguments);
  void PushOrderedDict(const std::vector<PickledValue>& given);
  void PushStorage(const PickledValue& id);
  void PushTensor(const std::vector<PickledValue>& given);
  std::vector<int64_t> Sizes(const PickledValue& value);
  void RequireInside(const PickledTensor& tensor) const;

  const std::span<const uint8_t> bytes_;
  const std::string& path_;
  TensorPickle& pickle_;
  size_t at_ = 0, values_ = 0;
  std::vector<PickledValue> stack_;
  std::vector<size_t> marks_;  // stack sizes at the open marks
  std::unordered_map<uint32_t, PickledValue> memory_;
  std::unordered_map<std::string_view, size_t> storage_by_key_;
};

}  // namespace dtrain::data
