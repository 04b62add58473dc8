// Files of tensors and of tables, tokens, and the manifest of a checkpoint.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/formats/safetensors_file.h"
#include "data/formats/table_reader.h"
#include "data/formats/tensor_file.h"
#include "data/formats/torch_file.h"
#include "data/sentences/sentence_set.h"
#include "data/text/text_split.h"
#include "data/text/utf8.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/temporary_folder.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/errors.h"

namespace dtrain::fuzz {
namespace {

checkpoint::Manifest MadeOf(FuzzInput& input) {
  checkpoint::Manifest manifest;
  manifest.step = input.TakeShort() - 32768;
  while (!input.empty()) {
    const auto name = input.Take(input.TakeByte() % 16), sha256 = input.Take(input.TakeByte() % 80);
    manifest.files[std::string(name.begin(), name.end())] = {.bytes = input.TakeShort(),
                                                             .sha256 = {sha256.begin(), sha256.end()}};
  }
  return manifest;
}

// The manifest of a checkpoint. If the first byte is even, the rest is its text. If it is odd, a manifest is made from
// the bytes and must survive being written and read.
FUZZ_TARGET(manifest) {
  FuzzInput input(whole);
  const bool made = input.TakeByte() % 2 == 1;
  const std::string text = made ? checkpoint::ManifestText(MadeOf(input)) : std::string(input.text());
  try {
    const checkpoint::Manifest manifest = checkpoint::ParseManifest(text);
    Require(checkpoint::ManifestText(manifest) == text, "what is read is not what is written");
  } catch (const StorageError&) {
    return;
  }
}

constexpr uint64_t kMostRead = 1 << 20;  // bytes; a tensor of no bytes may have any shape

void ReadTensors(const data::SafetensorsFile& file) {
  for (const auto& [name, entry] : file.tensors()) {
    Require(entry.begin <= entry.end && entry.end <= file.data_bytes(), "a tensor leaves the file");
    std::vector<uint8_t> bytes(std::min(entry.bytes(), kMostRead));
    file.Read(entry.begin, bytes.size(), bytes.data());
  }
}

void ReadRows(const data::TensorFile& file) {
  for (int64_t i = 0; i < std::min<int64_t>(file.size(), 16); ++i) {
    Require(file.Label(i) >= 0 && file.Label(i) < file.num_classes(), "a label is no class");
    file.Read(i);
    file.Location(i);
  }
}

// A safetensors file: its header, and the data set of `images` and `labels` in it. (Checkpoints and weights are read
// through the same SafetensorsFile; tests/trainer/checkpoint/safetensors_test.cc makes tensors of this corpus.)
FUZZ_TARGET(safetensors) {
  const MemoryFile file(whole);
  try {
    ReadTensors(data::SafetensorsFile(file.path()));
    ReadRows(data::TensorFile(file.path()));
  } catch (const DataError&) {
    return;
  }
}

using Rows = std::vector<std::vector<std::string>>;

Rows Read(std::string_view text, data::TableFormat format) {
  data::TableReader table("FILE", text, format);
  std::vector<size_t> columns;
  for (size_t i = 0; i < table.header().size(); ++i) columns.push_back(i);
  table.Select(columns);
  Rows rows;
  data::TableRow row;
  uint64_t least_offset = 0;
  while (table.Next(row)) {
    Require(row.offset >= least_offset && row.offset < text.size(), "rows are not in order");
    Require(row.cells.size() == columns.size(), "another number of cells");
    for (const std::string& cell : row.cells) {
      Require(cell.size() <= data::kMostCellBytes && data::IsUtf8(cell), "a cell that is no text");
      Require(cell.find('\0') == std::string::npos, "a cell with a NUL");
    }
    least_offset = row.offset + 1;
    rows.push_back(row.cells);
  }
  return rows;
}

std::string AsCsv(const Rows& rows) {
  std::string text = "header";
  for (size_t i = 1; !rows.empty() && i < rows[0].size(); ++i) text += ",header";
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? "\n\"" : ",\"";
      for (const char c : row[i]) text += c == '"' ? "\"\"" : std::string(1, c);
      text += '"';
    }
  }
  return text;
}

// Tables of sentences. The first byte chooses the format. What is read must be text, and a CSV file that is written
// from it must be read as the same.
FUZZ_TARGET(table) {
  FuzzInput input(whole);
  constexpr data::TableFormat kFormats[] = {data::TableFormat::kTsv, data::TableFormat::kCsv,
                                            data::TableFormat::kJsonLines, data::TableFormat::kLines};
  const data::TableFormat format = kFormats[input.TakeByte() % 4];
  try {
    data::TableReader table("FILE", input.text(), format);
    ChooseColumns(table, {}, true);
  } catch (const DataError&) {
  }
  Rows rows;
  try {
    rows = Read(input.text(), format);
  } catch (const DataError&) {
    return;
  }
  // A JSON object without keys has no cell, which CSV cannot say.
  if (rows.empty() || rows[0].empty()) return;
  std::erase_if(rows,
                [](const auto& row) { return std::ranges::all_of(row, &std::string::empty); });  // CSV's are left out
  Require(Read(AsCsv(rows), data::TableFormat::kCsv) == rows, "what is written is not what is read");
}

void Cut(const TemporaryFolder& folder, data::SampleBreak sample_break) {
  constexpr int64_t kTokensPerSample = 9;
  const data::TokenBlocks blocks(std::make_unique<data::TokenDataset>(folder.path("train")), sample_break,
                                 kTokensPerSample);
  for (int64_t i = 0; i < std::min<int64_t>(blocks.size(), 100); ++i) {
    Require(blocks.length(i) >= 2 && blocks.length(i) <= kTokensPerSample, "a block of another length");
    const auto bytes = static_cast<int64_t>(blocks.Read(i).size());
    Require(bytes == (blocks.length(i) - blocks.front()) * data::TokenBytes(blocks.type()), "a block of other bytes");
  }
}

// Token files and the blocks that are cut from them. The first two bytes are the length of the index, the rest is index
// and tokens. Blocks are cut in every way and must consist of tokens of the file.
FUZZ_TARGET(tokens) {
  FuzzInput input(whole);
  const size_t index_bytes = input.TakeShort();
  static const TemporaryFolder folder;
  folder.Write("train.idx", input.Take(index_bytes));
  folder.Write("train.bin", input.rest());
  for (const auto sample_break :
       {data::SampleBreak::kNone, data::SampleBreak::kComplete, data::SampleBreak::kCompleteDoc,
        data::SampleBreak::kEos, data::SampleBreak::kJoined, data::SampleBreak::kLines}) {
    try {
      Cut(folder, sample_break);
    } catch (const DataError&) {
    }
  }
}

uint64_t Reach(const data::PickledTensor& tensor) {
  uint64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) return 0;
    last += static_cast<uint64_t>(tensor.shape[i] - 1) * static_cast<uint64_t>(tensor.strides[i]);
  }
  return last + 1;
}

void ReadFile(const std::string& path, data::WeightSet preferred) {
  const data::TorchFile file(path, preferred);
  for (const data::TorchTensor& tensor : file.tensors()) {
    const data::TorchStorage& storage = file.storages().at(tensor.view.storage);
    const auto width = static_cast<uint64_t>(data::SafetensorsElementSize(storage.dtype).value());
    Require(Reach(tensor.view) <= storage.bytes / width, "a tensor leaves its storage");
    std::vector<uint8_t> bytes(storage.bytes);
    file.Read(tensor.view.storage, bytes.data());
  }
}

// Files of torch.save. The first byte says whether the rest is a whole file, a pickle alone (which in an archive has a
// checksum that hardly any mutation survives), or the list of an archive's members.
FUZZ_TARGET(torch_file) {
  FuzzInput input(whole);
  const uint8_t kind = input.TakeByte();
  try {
    if (kind % 3 == 1) {
      const std::string path = "pickle";
      const data::TensorPickle pickle(input.rest(), path);
      Require(pickle.size() <= input.rest().size(), "a pickle is longer than its bytes");
      for (const auto& storage : pickle.storages()) Require(!storage.dtype.empty(), "a storage of no dtype");
    } else if (kind % 3 == 2) {
      for (const auto& [name, member] : data::ReadStoredZip(data::MemoryBytes(input.rest()), "archive")) {
        Require(member.begin + member.size <= input.rest().size(), "a member leaves its archive");
      }
    } else {
      const MemoryFile file(input.rest());
      data::TorchFile::Recognises(file.path());
      ReadFile(file.path(), kind / 3 % 2 == 0 ? data::WeightSet::kRaw : data::WeightSet::kAverage);
    }
  } catch (const DataError&) {
    return;
  }
}

}  // namespace
}  // namespace dtrain::fuzz
