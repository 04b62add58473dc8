#include "data/formats/pickle_machine.h"

#include <algorithm>
#include <utility>

#include "data/error.h"
#include "data/formats/little_endian.h"

namespace dtrain::data {
namespace {

constexpr size_t kMostValues = 4'000'000;

// Instructions under the names they have in pickletools.
enum Instruction : uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinString = 'T',
  kShortBinString = 'U',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kMark = '(',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kList = 'l',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kAppend = 'a',
  kAppends = 'e',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kNewObj = 0x81,
  kBuild = 'b',
  kBinPersId = 'Q',
};

std::string Hexadecimal(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace

void PickleMachine::Run() {
  for (uint8_t instruction = 0; (instruction = Number<uint8_t>()) != kStop;) {
    if (instruction == kProto) {
      const auto protocol = Number<uint8_t>();
      if (protocol < 2 || protocol > 5) Damaged("its protocol is " + std::to_string(protocol));
    } else if (instruction == kFrame) {
      Number<uint64_t>();  // the frame's length, which matters only to readers of streams
    } else if (!PushesConstant(instruction) && !MovesValues(instruction) && !MakesContainer(instruction) &&
               !MakesObject(instruction)) {
      Refuse("its pickle has the instruction " + Hexadecimal(instruction) + ", which weights do not need",
             "save what model.state_dict() returns, with torch.save or as safetensors");
    }
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

void PickleMachine::AddTo(const PickledValue& target, PickledKind kind, const std::vector<PickledValue>& values) {
  if (target.kind != kind || (kind == PickledKind::kDict && values.size() % 2 != 0))
    Damaged("it adds items that do not fit their container");
  auto& items = pickle_.containers_[target.table];
  for (const PickledValue& value : values) {
    Count();
    items.push_back(value);
  }
}

// ---- Instructions ----

bool PickleMachine::PushesConstant(uint8_t instruction) {
  switch (instruction) {
    case kNone:
      return Push({}), true;
    case kNewTrue:
      return Push({.kind = PickledKind::kBool, .number = 1}), true;
    case kNewFalse:
      return Push({.kind = PickledKind::kBool, .number = 0}), true;
    case kBinInt:
      return PushInteger(Number<int32_t>()), true;
    case kBinInt1:
      return PushInteger(Number<uint8_t>()), true;
    case kBinInt2:
      return PushInteger(Number<uint16_t>()), true;
    case kLong1:
      return PushLong(Text(Number<uint8_t>())), true;
    case kBinFloat:
      return Take(sizeof(double)), Push({.kind = PickledKind::kReal}), true;
    case kBinUnicode:
      return PushText(PickledKind::kText, Text(Number<uint32_t>())), true;
    case kShortBinUnicode:
      return PushText(PickledKind::kText, Text(Number<uint8_t>())), true;
    case kBinUnicode8:
      return PushText(PickledKind::kText, Text(Number<uint64_t>())), true;
    case kBinString:
      return PushText(PickledKind::kText, Text(Number<uint32_t>())), true;
    case kShortBinString:
      return PushText(PickledKind::kText, Text(Number<uint8_t>())), true;
    case kBinBytes:
      return PushText(PickledKind::kBytes, Text(Number<uint32_t>())), true;
    case kShortBinBytes:
      return PushText(PickledKind::kBytes, Text(Number<uint8_t>())), true;
    default:
      return false;
  }
}

bool PickleMachine::MovesValues(uint8_t instruction) {
  switch (instruction) {
    case kMark:
      return Count(), marks_.push_back(stack_.size()), true;
    case kPop:
      return Pop(), true;
    case kPopMark:
      return PopMarked(), true;
    case kDup:
      return Push(Top()), true;
    case kBinPut:
      return Remember(Number<uint8_t>()), true;
    case kLongBinPut:
      return Remember(Number<uint32_t>()), true;
    case kMemoize:
      return Remember(static_cast<uint32_t>(memory_.size())), true;
    case kBinGet:
      return Recall(Number<uint8_t>()), true;
    case kLongBinGet:
      return Recall(Number<uint32_t>()), true;
    default:
      return false;
  }
}

bool PickleMachine::MakesContainer(uint8_t instruction) {
  std::vector<PickledValue> values;
  switch (instruction) {
    case kEmptyList:
    case kEmptyTuple:
      return PushContainer(PickledKind::kSequence, {}), true;
    case kEmptyDict:
      return PushContainer(PickledKind::kDict, {}), true;
    case kList:
    case kTuple:
      return PushContainer(PickledKind::kSequence, PopMarked()), true;
    case kTuple1:
      return PushContainer(PickledKind::kSequence, PopSome(1)), true;
    case kTuple2:
      return PushContainer(PickledKind::kSequence, PopSome(2)), true;
    case kTuple3:
      return PushContainer(PickledKind::kSequence, PopSome(3)), true;
    case kAppend:
      return values = PopSome(1), AddTo(Top(), PickledKind::kSequence, values), true;
    case kAppends:
      return values = PopMarked(), AddTo(Top(), PickledKind::kSequence, values), true;
    case kSetItem:
      return values = PopSome(2), AddTo(Top(), PickledKind::kDict, values), true;
    case kSetItems:
      return values = PopMarked(), AddTo(Top(), PickledKind::kDict, values), true;
    default:
      return false;
  }
}

bool PickleMachine::MakesObject(uint8_t instruction) {
  switch (instruction) {
    case kGlobal: {
      const std::string_view module = Line();
      return PushName(module, Line()), true;
    }
    case kStackGlobal: {
      const std::vector<PickledValue> names = PopSome(2);
      return PushName(names[0].text, names[1].text), true;
    }
    case kReduce:
    case kNewObj: {
      const std::vector<PickledValue> call = PopSome(2);
      return Call(call[0], call[1]), true;
    }
    // Attributes, which are ignored: those of a dict of weights (_metadata), or a program's arguments.
    case kBuild:
      return Pop(), Top(), true;
    case kBinPersId:
      return PushStorage(Pop()), true;
    default:
      return false;
  }
}

}  // namespace dtrain::data
