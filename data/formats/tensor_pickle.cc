// The pickle in a file of torch.save (torch_file.h).
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/formats/torch_file.h"
#include "data/shown.h"

namespace dtrain::data {

namespace {

constexpr size_t kMostValues = 4'000'000;
constexpr size_t kMostDimensions = 64;
constexpr size_t kShownNameBytes = 80;

// The names in Python modules that a pickle of weights may use: those that torch.load's safe mode accepts and weights
// have, and those that training programs save beside them.
constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kRebuildTensor1 = "torch._utils._rebuild_tensor";
constexpr std::string_view kRebuildTensor2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kRebuildParameter2 = "torch._utils._rebuild_parameter_with_state";
constexpr std::string_view kSize = "torch.Size";

struct KnownName {
  std::string_view name, dtype = {};  // `dtype` of storages, in safetensors' notation
  bool is_object = false;             // an object without weights
};
// clang-format off
constexpr KnownName kKnownNames[] = {
    {"torch.FloatStorage", "F32"}, {"torch.DoubleStorage", "F64"}, {"torch.HalfStorage", "F16"},
    {"torch.BFloat16Storage", "BF16"}, {"torch.LongStorage", "I64"}, {"torch.IntStorage", "I32"},
    {"torch.ShortStorage", "I16"}, {"torch.CharStorage", "I8"}, {"torch.ByteStorage", "U8"}, {"torch.BoolStorage", "BOOL"},
    {kOrderedDict}, {kRebuildTensor1}, {kRebuildTensor2}, {kRebuildParameter}, {kRebuildParameter2},
    {kSize},
    // Namespace holds the command line in files of training scripts. The others are of schedulers, DeepSpeed and
    // Python's bytes, and nothing of their content is kept.
    {"argparse.Namespace", "", true}, {"torch.device", "", true}, {"collections.Counter", "", true},
    {"builtins.set", "", true}, {"__builtin__.set", "", true}, {"builtins.bytearray", "", true},
    {"__builtin__.bytearray", "", true}, {"builtins.complex", "", true}, {"__builtin__.complex", "", true},
    {"__builtin__.bytes", "", true}, {"_codecs.encode", "", true},
    // Dtypes may appear in a training program's arguments.
    {"torch.float32"}, {"torch.float64"}, {"torch.float16"}, {"torch.bfloat16"}, {"torch.int64"}, {"torch.int32"},
    {"torch.int16"}, {"torch.int8"}, {"torch.uint8"}, {"torch.bool"}, {"torch.float"}, {"torch.half"}, {"torch.long"},
    {"torch.double"}};
// clang-format on

std::string Hexadecimal(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace

// The stack machine that executes a pickle, limited to the instructions that weights need.
class PickleMachine {
 public:
  // All arguments must outlive this object.
  PickleMachine(std::span<const uint8_t> bytes, const std::string& path, TensorPickle& pickle)
      : bytes_(bytes), path_(path), pickle_(pickle) {}

  // Executes the pickle up to its STOP and fills `pickle`. Throws DataError.
  void Run() {
    constexpr uint8_t kStop = '.';
    for (uint8_t code = 0; (code = Number<uint8_t>()) != kStop;) {
      const Instruction run = Instructions()[code];
      if (run == nullptr) {
        Refuse("its pickle has the instruction " + Hexadecimal(code) + ", which weights do not need",
               "save what model.state_dict() returns, with torch.save or as safetensors");
      }
      run(*this);
    }
    pickle_.value_ = Pop();
    pickle_.size_ = at_;
  }

 private:
  [[noreturn]] void Refuse(const std::string& reason, const std::string& hint) const {
    throw DataError(path_ + " cannot be read as weights: " + reason, hint);
  }

  [[noreturn]] void Damaged(const std::string& reason) const {
    Refuse("its pickle is damaged: " + reason, "get the file again, or save its weights as safetensors");
  }

  // ---- Bytes ----

  // These take from the front of the bytes that are left.
  std::span<const uint8_t> Take(uint64_t size) {
    if (size > bytes_.size() - at_) Damaged("it ends too early");
    const auto taken = bytes_.subspan(at_, size);
    at_ += size;
    return taken;
  }

  template <typename T>
  T Number() {
    return LoadLittleEndian<T>(Take(sizeof(T)).data());
  }

  std::string_view Text(uint64_t size) { return AsText(Take(size)); }

  std::string_view Line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), '\n');
    if (end == rest.end()) Damaged("it ends too early");
    const std::string_view line = Text(static_cast<uint64_t>(end - rest.begin()));
    ++at_;
    return line;
  }

  // ---- The stack ----

  // Counts everything that is kept and refuses more than a limit: an instruction takes a byte or two, a value many
  // more.
  void Count() {
    if (++values_ > kMostValues) Refuse("it holds too many values", "save the weights alone: model.state_dict()");
  }

  void Push(const PickledValue& value) {
    Count();
    stack_.push_back(value);
  }

  void PushText(PickledKind kind, std::string_view text) { Push({.kind = kind, .text = text}); }
  void PushInteger(int64_t number) { Push({.kind = PickledKind::kInteger, .number = number}); }

  // `bytes` is a little-endian two's complement number of any length.
  void PushLong(std::string_view bytes) {
    if (bytes.size() > sizeof(int64_t)) return PushText(PickledKind::kBytes, bytes);
    uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i > 0; --i) number = number << 8 | static_cast<uint8_t>(bytes[i - 1]);
    PushInteger(static_cast<int64_t>(number));
  }

  void PushContainer(PickledKind kind, std::vector<PickledValue> values) {
    pickle_.containers_.push_back(std::move(values));
    Push({.kind = kind, .table = pickle_.containers_.size() - 1});
  }

  // Values below the last mark cannot be reached.
  PickledValue& Top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) Damaged("an instruction finds no value");
    return stack_.back();
  }

  PickledValue Pop() {
    const PickledValue value = Top();
    stack_.pop_back();
    return value;
  }

  // Removes the last mark and returns everything above it.
  std::vector<PickledValue> PopMarked() {
    if (marks_.empty()) Damaged("an instruction finds no mark");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickledValue> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }

  std::vector<PickledValue> PopSome(size_t count) {
    std::vector<PickledValue> values(count);
    for (size_t i = count; i > 0; --i) values[i - 1] = Pop();
    return values;
  }

  void Remember(uint32_t place) {
    Count();
    memory_[place] = Top();
  }

  void Recall(uint32_t place) {
    const auto found = memory_.find(place);
    if (found == memory_.end()) Damaged("it reads a memo entry that was never written");
    Push(found->second);
  }

  void AddToTop(PickledKind kind, const std::vector<PickledValue>& values) {
    const PickledValue target = Top();
    if (target.kind != kind || (kind == PickledKind::kDict && values.size() % 2 != 0))
      Damaged("it adds items that do not fit their container");
    auto& items = pickle_.containers_[target.table];
    for (const PickledValue& value : values) {
      Count();
      items.push_back(value);
    }
  }

  // ---- Instructions ----

  void RequireProtocol(uint8_t protocol) const {
    if (protocol < 2 || protocol > 5) Damaged("its protocol is " + std::to_string(protocol));
  }

  // What each instruction does; null for one that weights do not need.
  using Instruction = void (*)(PickleMachine& machine);

  static const std::array<Instruction, 256>& Instructions() {
    using M = PickleMachine;
    using Kind = PickledKind;
    // A row for each instruction, with its name in pickletools.
    static const std::map<uint8_t, Instruction> rows = {
        {0x80, [](M& m) { m.RequireProtocol(m.Number<uint8_t>()); }},  // PROTO
        {0x95, [](M& m) { m.Number<uint64_t>(); }},  // FRAME: its length matters only to readers of streams

        {'N', [](M& m) { m.Push({}); }},                                              // NONE
        {0x88, [](M& m) { m.Push({.kind = Kind::kBool, .number = 1}); }},             // NEWTRUE
        {0x89, [](M& m) { m.Push({.kind = Kind::kBool, .number = 0}); }},             // NEWFALSE
        {'J', [](M& m) { m.PushInteger(m.Number<int32_t>()); }},                      // BININT
        {'K', [](M& m) { m.PushInteger(m.Number<uint8_t>()); }},                      // BININT1
        {'M', [](M& m) { m.PushInteger(m.Number<uint16_t>()); }},                     // BININT2
        {0x8a, [](M& m) { m.PushLong(m.Text(m.Number<uint8_t>())); }},                // LONG1
        {'G', [](M& m) { m.Take(sizeof(double)), m.Push({.kind = Kind::kReal}); }},   // BINFLOAT
        {'X', [](M& m) { m.PushText(Kind::kText, m.Text(m.Number<uint32_t>())); }},   // BINUNICODE
        {0x8c, [](M& m) { m.PushText(Kind::kText, m.Text(m.Number<uint8_t>())); }},   // SHORT_BINUNICODE
        {0x8d, [](M& m) { m.PushText(Kind::kText, m.Text(m.Number<uint64_t>())); }},  // BINUNICODE8
        {'T', [](M& m) { m.PushText(Kind::kText, m.Text(m.Number<uint32_t>())); }},   // BINSTRING
        {'U', [](M& m) { m.PushText(Kind::kText, m.Text(m.Number<uint8_t>())); }},    // SHORT_BINSTRING
        {'B', [](M& m) { m.PushText(Kind::kBytes, m.Text(m.Number<uint32_t>())); }},  // BINBYTES
        {'C', [](M& m) { m.PushText(Kind::kBytes, m.Text(m.Number<uint8_t>())); }},   // SHORT_BINBYTES

        {'(', [](M& m) { m.Count(), m.marks_.push_back(m.stack_.size()); }},        // MARK
        {'0', [](M& m) { m.Pop(); }},                                               // POP
        {'1', [](M& m) { m.PopMarked(); }},                                         // POP_MARK
        {'2', [](M& m) { m.Push(m.Top()); }},                                       // DUP
        {'q', [](M& m) { m.Remember(m.Number<uint8_t>()); }},                       // BINPUT
        {'r', [](M& m) { m.Remember(m.Number<uint32_t>()); }},                      // LONG_BINPUT
        {0x94, [](M& m) { m.Remember(static_cast<uint32_t>(m.memory_.size())); }},  // MEMOIZE
        {'h', [](M& m) { m.Recall(m.Number<uint8_t>()); }},                         // BINGET
        {'j', [](M& m) { m.Recall(m.Number<uint32_t>()); }},                        // LONG_BINGET

        {']', [](M& m) { m.PushContainer(Kind::kSequence, {}); }},             // EMPTY_LIST
        {')', [](M& m) { m.PushContainer(Kind::kSequence, {}); }},             // EMPTY_TUPLE
        {'}', [](M& m) { m.PushContainer(Kind::kDict, {}); }},                 // EMPTY_DICT
        {'l', [](M& m) { m.PushContainer(Kind::kSequence, m.PopMarked()); }},  // LIST
        {'t', [](M& m) { m.PushContainer(Kind::kSequence, m.PopMarked()); }},  // TUPLE
        {0x85, [](M& m) { m.PushContainer(Kind::kSequence, m.PopSome(1)); }},  // TUPLE1
        {0x86, [](M& m) { m.PushContainer(Kind::kSequence, m.PopSome(2)); }},  // TUPLE2
        {0x87, [](M& m) { m.PushContainer(Kind::kSequence, m.PopSome(3)); }},  // TUPLE3
        {'a', [](M& m) { m.AddToTop(Kind::kSequence, m.PopSome(1)); }},        // APPEND
        {'e', [](M& m) { m.AddToTop(Kind::kSequence, m.PopMarked()); }},       // APPENDS
        {'s', [](M& m) { m.AddToTop(Kind::kDict, m.PopSome(2)); }},            // SETITEM
        {'u', [](M& m) { m.AddToTop(Kind::kDict, m.PopMarked()); }},           // SETITEMS

        {'c',
         [](M& m) {
           const auto module = m.Line();
           m.PushName(module, m.Line());
         }},  // GLOBAL
        {0x93,
         [](M& m) {
           const auto names = m.PopSome(2);
           m.PushName(names[0].text, names[1].text);
         }},                                            // STACK_GLOBAL
        {'R', [](M& m) { m.Call(m.PopSome(2)); }},      // REDUCE
        {0x81, [](M& m) { m.Call(m.PopSome(2)); }},     // NEWOBJ
        {'b', [](M& m) { m.SetAttributes(m.Pop()); }},  // BUILD
        {'Q', [](M& m) { m.PushStorage(m.Pop()); }},    // BINPERSID
    };
    static const auto table = [] {
      std::array<Instruction, 256> all{};
      for (const auto& [code, run] : rows) all[code] = run;
      return all;
    }();
    return table;
  }

  // ---- Calls: each pushes the result of a known name, given its arguments ----

  void PushName(std::string_view module, std::string_view name) {
    const std::string whole = std::string(module) + "." + std::string(name);
    const auto* const known = std::ranges::find(kKnownNames, whole, &KnownName::name);
    if (known != std::end(kKnownNames)) return PushText(PickledKind::kName, known->name);
    const std::string shown = Shown(whole, kShownNameBytes);
    Refuse(
        "it asks for " + shown + ", which is code, and dtrain never runs code from a file",
        "save what model.state_dict() returns, with torch.save or as safetensors; look at the file before that if it "
        "is not from someone you trust");
  }

  // NAME(*arguments)
  void Call(const std::vector<PickledValue>& name_and_arguments) {
    const PickledValue &name = name_and_arguments[0], &arguments = name_and_arguments[1];
    if (name.kind != PickledKind::kName || arguments.kind != PickledKind::kSequence)
      Damaged("it calls something that is not a function");
    const std::vector<PickledValue>& given = pickle_.containers_[arguments.table];
    const std::string_view what = name.text;
    if (what == kRebuildTensor2 || what == kRebuildTensor1) return PushTensor(given);
    if (what == kOrderedDict) return PushOrderedDict(given);
    const bool is_parameter = what == kRebuildParameter || what == kRebuildParameter2;
    if (is_parameter && !given.empty() && given[0].kind == PickledKind::kTensor) return Push(given[0]);
    if (what == kSize && given.size() == 1 && given[0].kind == PickledKind::kSequence) return Push(given[0]);
    if (std::ranges::find(kKnownNames, what, &KnownName::name)->is_object)
      return PushContainer(PickledKind::kObject, {});
    Damaged("it calls " + std::string(what) + " with wrong arguments");
  }

  // Those of a dict of weights (_metadata) are ignored.
  void SetAttributes(const PickledValue& attributes) {
    const PickledValue& object = Top();
    if (object.kind != PickledKind::kObject || attributes.kind != PickledKind::kDict) return;
    auto& kept = pickle_.containers_[object.table];
    for (const PickledValue& value : pickle_.containers_[attributes.table]) {
      Count();
      kept.push_back(value);
    }
  }

  void PushOrderedDict(const std::vector<PickledValue>& given) {
    std::vector<PickledValue> items;
    if (given.size() > 1 || (!given.empty() && given[0].kind != PickledKind::kSequence))
      Damaged("an OrderedDict that does not consist of pairs");
    if (!given.empty()) {
      for (const PickledValue& pair : pickle_.containers_[given[0].table]) {
        if (pair.kind != PickledKind::kSequence || pickle_.containers_[pair.table].size() != 2) {
          Damaged("an OrderedDict that does not consist of pairs");
        }
        for (const PickledValue& item : pickle_.containers_[pair.table]) {
          Count();
          items.push_back(item);
        }
      }
    }
    PushContainer(PickledKind::kDict, std::move(items));
  }

  // ('storage', type, key, location, elements[, view])
  void PushStorage(const PickledValue& id) {
    if (id.kind != PickledKind::kSequence) Damaged("a storage without a key");
    const std::vector<PickledValue>& parts = pickle_.containers_[id.table];
    const bool is_storage = parts.size() >= 5 && parts.size() <= 6 && parts[0].text == "storage" &&
                            parts[1].kind == PickledKind::kName && parts[2].kind == PickledKind::kText &&
                            parts[4].kind == PickledKind::kInteger && parts[4].number >= 0;
    if (!is_storage) Damaged("a storage that is not described as torch.save does");
    if (parts.size() == 6 && parts[5].kind != PickledKind::kNone) {
      Refuse("it shares storages as PyTorch before 0.4 did", "save it again with a newer PyTorch");
    }
    const std::string_view dtype = std::ranges::find(kKnownNames, parts[1].text, &KnownName::name)->dtype;
    if (dtype.empty()) Damaged(std::string(parts[1].text) + " is not a storage type");
    const PickledStorage storage = {parts[2].text, dtype, static_cast<uint64_t>(parts[4].number)};
    const auto [known, is_new] = storage_by_key_.emplace(storage.key, pickle_.storages_.size());
    if (is_new) {
      pickle_.storages_.push_back(storage);
    } else if (const auto& other = pickle_.storages_[known->second];
               other.dtype != storage.dtype || other.elements != storage.elements) {
      Damaged("the storage " + Shown(storage.key, kShownNameBytes) + " is described in two ways");
    }
    Push({.kind = PickledKind::kStorage, .table = known->second});
  }

  std::vector<int64_t> Sizes(const PickledValue& value) {
    if (value.kind != PickledKind::kSequence) Damaged("a tensor without a shape");
    const auto& items = pickle_.containers_[value.table];
    if (items.size() > kMostDimensions) Damaged("a tensor of " + std::to_string(items.size()) + " dimensions");
    std::vector<int64_t> sizes;
    for (const PickledValue& item : items) {
      Count();  // they are kept for each tensor, even if thousands share one tuple
      if (item.kind != PickledKind::kInteger || item.number < 0) Damaged("a tensor with a size or stride below 0");
      sizes.push_back(item.number);
    }
    return sizes;
  }

  // (storage, offset, shape, strides[, requires_grad, hooks[, metadata]])
  void PushTensor(const std::vector<PickledValue>& given) {
    const bool is_tensor = given.size() >= 4 && given[0].kind == PickledKind::kStorage &&
                           given[1].kind == PickledKind::kInteger && given[1].number >= 0;
    if (!is_tensor) Damaged("a tensor that is not described as torch.save does");
    if (given.size() > 6 && given[6].kind != PickledKind::kNone) {
      Refuse("a tensor in it is a conjugate or negated view", "save it again after tensor.resolve_neg()");
    }
    PickledTensor tensor{.storage = given[0].table,
                         .shape = Sizes(given[2]),
                         .strides = Sizes(given[3]),
                         .offset = static_cast<uint64_t>(given[1].number)};
    RequireInside(tensor);
    pickle_.tensors_.push_back(std::move(tensor));
    Push({.kind = PickledKind::kTensor, .table = pickle_.tensors_.size() - 1});
  }

  void RequireInside(const PickledTensor& tensor) const {
    if (tensor.shape.size() != tensor.strides.size()) Damaged("a tensor with more or fewer strides than dimensions");
    const uint64_t elements = pickle_.storages_[tensor.storage].elements;
    uint64_t count = 1, last = tensor.offset;
    bool fits = true;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      uint64_t reach = 0;
      const auto size = static_cast<uint64_t>(tensor.shape[i]), stride = static_cast<uint64_t>(tensor.strides[i]);
      fits = fits && !__builtin_mul_overflow(count, size, &count);
      fits = fits && (size == 0 || (!__builtin_mul_overflow(size - 1, stride, &reach) &&
                                    !__builtin_add_overflow(last, reach, &last)));
    }
    if (fits && count == 0) return;
    if (!fits || last >= elements) Damaged("a tensor leaves its storage");
    if (count > elements) {
      Refuse("a tensor in it repeats its elements (a stride of 0)", "save it again after tensor.contiguous()");
    }
  }

  const std::span<const uint8_t> bytes_;
  const std::string& path_;
  TensorPickle& pickle_;
  size_t at_ = 0, values_ = 0;
  std::vector<PickledValue> stack_;
  std::vector<size_t> marks_;  // stack sizes at the open marks
  std::unordered_map<uint32_t, PickledValue> memory_;
  std::unordered_map<std::string_view, size_t> storage_by_key_;
};

TensorPickle::TensorPickle(std::span<const uint8_t> bytes, const std::string& path) {
  PickleMachine(bytes, path, *this).Run();
}

}  // namespace dtrain::data
