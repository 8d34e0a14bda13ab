// A library that shows a symbol which is not Tegula's: check_exports.sh must object.
namespace llvm {
template <class T>
T planted() {
  return T();
}
template int planted<int>();  // a weak symbol
}  // namespace llvm
