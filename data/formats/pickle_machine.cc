#include "data/formats/pickle_machine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/error.h"
#include "data/formats/little_endian.h"

namespace dtrain::data {
namespace {

constexpr size_t kMostValues = 4'000'000;

std::string Hexadecimal(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace

TensorPickle::TensorPickle(std::span<const uint8_t> bytes, const std::string& path) {
  PickleMachine(bytes, path, *this).Run();
}

void PickleMachine::Run() {
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

void PickleMachine::Refuse(const std::string& reason, const std::string& hint) const {
  throw DataError(path_ + " cannot be read as weights: " + reason, hint);
}

void PickleMachine::Damaged(const std::string& reason) const {
  Refuse("its pickle is damaged: " + reason, "get the file again, or save its weights as safetensors");
}

// ---- Bytes ----

std::span<const uint8_t> PickleMachine::Take(uint64_t size) {
  if (size > bytes_.size() - at_) Damaged("it ends too early");
  const auto taken = bytes_.subspan(at_, size);
  at_ += size;
  return taken;
}

template <typename T>
T PickleMachine::Number() {
  return LoadLittleEndian<T>(Take(sizeof(T)).data());
}

std::string_view PickleMachine::Text(uint64_t size) {
  const auto taken = Take(size);
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

std::string_view PickleMachine::Line() {
  const auto rest = bytes_.subspan(at_);
  const auto end = std::find(rest.begin(), rest.end(), '\n');
  if (end == rest.end()) Damaged("it ends too early");
  const std::string_view line = Text(static_cast<uint64_t>(end - rest.begin()));
  ++at_;
  return line;
}

// ---- The stack ----

void PickleMachine::Count() {
  if (++values_ > kMostValues) Refuse("it holds too many values", "save the weights alone: model.state_dict()");
}

void PickleMachine::Push(const PickledValue& value) {
  Count();
  stack_.push_back(value);
}

// `bytes` is a little-endian two's complement number of any length.
void PickleMachine::PushLong(std::string_view bytes) {
  if (bytes.size() > sizeof(int64_t)) return PushText(PickledKind::kBytes, bytes);
  uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
  for (size_t i = bytes.size(); i > 0; --i) number = number << 8 | static_cast<uint8_t>(bytes[i - 1]);
  PushInteger(static_cast<int64_t>(number));
}

void PickleMachine::PushContainer(PickledKind kind, std::vector<PickledValue> values) {
  pickle_.containers_.push_back(std::move(values));
  Push({.kind = kind, .table = pickle_.containers_.size() - 1});
}

PickledValue& PickleMachine::Top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) Damaged("an instruction finds no value");
  return stack_.back();
}

PickledValue PickleMachine::Pop() {
  const PickledValue value = Top();
  stack_.pop_back();
  return value;
}

// Removes the last mark and returns everything above it.
std::vector<PickledValue> PickleMachine::PopMarked() {
  if (marks_.empty()) Damaged("an instruction finds no mark");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickledValue> values(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return values;
}

std::vector<PickledValue> PickleMachine::PopSome(size_t count) {
  std::vector<PickledValue> values(count);
  for (size_t i = count; i > 0; --i) values[i - 1] = Pop();
  return values;
}

void PickleMachine::Remember(uint32_t place) {
  Count();
  memory_[place] = Top();
}

void PickleMachine::Recall(uint32_t place) {
  const auto found = memory_.find(place);
  if (found == memory_.end()) Damaged("it reads a memo entry that was never written");
  Push(found->second);
}

void PickleMachine::AddToTop(PickledKind kind, const std::vector<PickledValue>& values) {
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

void PickleMachine::RequireProtocol(uint8_t protocol) const {
  if (protocol < 2 || protocol > 5) Damaged("its protocol is " + std::to_string(protocol));
}

const std::array<PickleMachine::Instruction, 256>& PickleMachine::Instructions() {
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
       }},                                         // STACK_GLOBAL
      {'R', [](M& m) { m.Call(m.PopSome(2)); }},   // REDUCE
      {0x81, [](M& m) { m.Call(m.PopSome(2)); }},  // NEWOBJ
      // BUILD sets attributes, which are ignored: those of a dict of weights (_metadata), or a program's arguments.
      {'b', [](M& m) { m.Pop(), m.Top(); }},
      {'Q', [](M& m) { m.PushStorage(m.Pop()); }},  // BINPERSID
  };
  static const auto table = [] {
    std::array<Instruction, 256> all{};
    for (const auto& [code, run] : rows) all[code] = run;
    return all;
  }();
  return table;
}

}  // namespace dtrain::data
