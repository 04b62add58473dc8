#include "data/prepare/text_encoding.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "data/error.h"
#include "data/machine/thread.h"
#include "data/progress.h"
#include "data/text/text_lines.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

// Calls make(thread, i) for each i in [0, count) on `threads` new threads, numbered from 0, and take(result) on the
// calling thread for each result, in the order of i. At most 4 results per thread wait to be taken. The first exception
// of a call is rethrown after all threads have ended.
template <typename Make, typename Take>
void InOrder(size_t count, size_t threads, const Make& make, const Take& take) {
  using Result = decltype(make(size_t{0}, size_t{0}));
  constexpr size_t kWaitingPerThread = 4;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, Result> made;
  size_t next = 0, taken = 0;
  std::exception_ptr error;
  const auto fail = [&] {
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
    changed.notify_all();
  };
  const auto work = [&](size_t thread) {
    try {
      while (true) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return error || next >= count || next < taken + kWaitingPerThread * threads; });
        if (error || next >= count) return;
        const size_t i = next++;
        lock.unlock();
        Result result = make(thread, i);
        lock.lock();
        made.emplace(i, std::move(result));
        changed.notify_all();
      }
    } catch (...) {
      fail();
    }
  };
  {
    std::vector<Thread> workers;
    try {
      for (size_t thread = 0; thread < threads; ++thread) workers.emplace_back([&work, thread] { work(thread); });
      for (; taken < count;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return error || made.contains(taken); });
        if (error) break;
        Result result = std::move(made.extract(taken).mapped());
        lock.unlock();
        take(std::move(result));
        lock.lock();
        ++taken;
        changed.notify_all();
      }
    } catch (...) {
      fail();
    }
  }
  if (error) std::rethrow_exception(error);
}

// Appends tokens in their stored type.
void AppendTokens(TokenType type, const std::vector<uint32_t>& tokens, std::string& bytes) {
  const auto append = [&]<typename Stored>(Stored /*type*/) {
    const size_t before = bytes.size();
    bytes.resize(before + tokens.size() * sizeof(Stored));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto stored = static_cast<Stored>(tokens[i]);
      std::memcpy(bytes.data() + before + i * sizeof stored, &stored, sizeof stored);
    }
  };
  if (type == TokenType::kUInt16) return append(uint16_t{});
  append(uint32_t{});
}

// The encoded lines of a part of a text file.
struct EncodedLines {
  std::string tokens;
  std::vector<int32_t> sizes;
  int64_t text_bytes = 0;
};

// The state of one thread.
struct Worker {
  explicit Worker(const Tokenizer& tokenizer)
      : encoder(tokenizer.MakeEncoder()), counts(static_cast<size_t>(tokenizer.vocabulary()), 0) {}
  std::unique_ptr<TextEncoder> encoder;
  std::vector<int64_t> counts;  // occurrences of each token
  std::vector<int32_t> line;
  std::vector<uint32_t> stored;
};

EncodedLines EncodeLines(std::string_view text, const Numbering& numbering, Worker& worker) {
  EncodedLines encoded;
  encoded.text_bytes = static_cast<int64_t>(text.size());
  worker.stored.clear();
  while (!text.empty()) {
    worker.line.clear();
    worker.encoder->Encode(Stripped(TakeLine(text)), worker.line);
    if (worker.line.size() >= INT32_MAX) {
      throw DataError("a line of " + std::to_string(worker.line.size()) + " tokens",
                      "a line must have fewer than 2^31 tokens");
    }
    for (const int32_t token : worker.line) {
      ++worker.counts[static_cast<size_t>(token)];
      worker.stored.push_back(numbering.ids[static_cast<size_t>(token)]);
    }
    worker.stored.push_back(numbering.end);
    encoded.sizes.push_back(static_cast<int32_t>(worker.line.size() + 1));
  }
  AppendTokens(numbering.type, worker.stored, encoded.tokens);
  return encoded;
}

}  // namespace

TextFiles::TextFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const RandomAccessFile& file = files_.emplace_back(path);
    for (uint64_t begin = 0; begin < file.size(); begin += kPieceBytes) pieces_.push_back({files_.size() - 1, begin});
  }
}

std::string TextFiles::Piece(size_t i) const {
  return LinesBeginningIn(files_[pieces_[i].file], pieces_[i].begin, kPieceBytes);
}

Totals EncodeText(const TextFiles& text, const Tokenizer& tokenizer, const Numbering& numbering, size_t threads,
                  PartialFile& output) {
  std::vector<Worker> workers;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back(tokenizer);
  Totals totals;
  totals.counts.resize(workers[0].counts.size());
  Progress progress("tokenize", "MiB", static_cast<int64_t>(text.pieces()));
  InOrder(
      text.pieces(), threads,
      [&](size_t thread, size_t i) { return EncodeLines(text.Piece(i), numbering, workers[thread]); },
      [&](const EncodedLines& encoded) {
        output.Append(encoded.tokens);
        totals.sizes.insert(totals.sizes.end(), encoded.sizes.begin(), encoded.sizes.end());
        progress.Add(1, encoded.text_bytes);
      });
  for (const Worker& worker : workers) {
    totals.replaced += worker.encoder->replaced();
    for (size_t id = 0; id < worker.counts.size(); ++id) totals.counts[id] += worker.counts[id];
  }
  for (const int32_t size : totals.sizes) totals.tokens += size;
  return totals;
}

void Renumber(const std::string& path, TokenType type, const Numbering& numbering, size_t threads,
              PartialFile& output) {
  const RandomAccessFile input(path);
  const uint64_t pieces = (input.size() + kPieceBytes - 1) / kPieceBytes;
  const auto make = [&](size_t /*thread*/, size_t i) {
    std::vector<uint8_t> bytes(std::min(kPieceBytes, input.size() - i * kPieceBytes));
    input.Read(i * kPieceBytes, bytes.size(), bytes.data());
    std::vector<int64_t> tokens(bytes.size() / static_cast<size_t>(TokenBytes(type)));
    WidenTokens(type, bytes, tokens.data());
    std::vector<uint32_t> renumbered;
    renumbered.reserve(tokens.size());
    for (const int64_t token : tokens) renumbered.push_back(numbering.ids.at(static_cast<size_t>(token)));
    std::string stored;
    AppendTokens(numbering.type, renumbered, stored);
    return stored;
  };
  InOrder(pieces, threads, make, [&](const std::string& stored) { output.Append(stored); });
}

}  // namespace dtrain::data
