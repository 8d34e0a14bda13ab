#include "codegen/exec/llvm/own_registers.h"

#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineLoopInfo.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

#include <initializer_list>

namespace tegula {

namespace {

class OwnRegisters : public llvm::MachineFunctionPass {
 public:
  static char ID;
  OwnRegisters() : llvm::MachineFunctionPass(ID) {}
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.setPreservesCFG();
    usage.addRequired<llvm::MachineLoopInfoWrapperPass>();
    usage.addPreserved<llvm::MachineLoopInfoWrapperPass>();
    llvm::MachineFunctionPass::getAnalysisUsage(usage);
  }
  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    const llvm::MachineLoopInfo& loops = getAnalysis<llvm::MachineLoopInfoWrapperPass>().getLI();
    bool changed = false;
    for (llvm::MachineBasicBlock& block : function)
      for (llvm::MachineInstr& i : llvm::make_early_inc_range(block))
        if (is_copy(i)) changed |= repeat_constant(i, function) || move(i, function, loops);
    return changed;
  }

 private:
  static bool is_whole(const llvm::MachineOperand& operand) {
    return operand.getReg().isVirtual() && operand.getSubReg() == 0;
  }
  // Whether a loop carries what is written to the register next.
  static bool is_carried(llvm::Register written, const llvm::MachineRegisterInfo& registers) {
    return llvm::any_of(registers.use_instructions(written), [&](const llvm::MachineInstr& use) {
      return use.isCopy() && is_whole(use.getOperand(0)) && !registers.hasOneDef(use.getOperand(0).getReg());
    });
  }
  static bool is_copy(const llvm::MachineInstr& i) {
    return i.isCopy() && is_whole(i.getOperand(0)) && is_whole(i.getOperand(1));
  }
  static bool repeat_constant(llvm::MachineInstr& copy, llvm::MachineFunction& function) {
    llvm::MachineRegisterInfo& registers = function.getRegInfo();
    const llvm::Register to = copy.getOperand(0).getReg(), from = copy.getOperand(1).getReg();
    llvm::MachineInstr* constant = registers.getUniqueVRegDef(from);
    if (!constant || constant->getNumOperands() != 2 || !constant->isAsCheapAsAMove()) return false;
    if (is_carried(to, registers)) return false;
    const llvm::MachineOperand& value = constant->getOperand(1);
    if ((!value.isImm() && !value.isFPImm()) || registers.getRegClass(to) != registers.getRegClass(from)) return false;
    llvm::MachineInstr* own = function.CloneMachineInstr(constant);
    own->getOperand(0).setReg(to);
    own->getOperand(0).setIsDead(false);
    own->setDebugLoc(copy.getDebugLoc());
    copy.getParent()->insert(copy.getIterator(), own);
    copy.eraseFromParent();
    return true;
  }
  // Whether a loop that the copy is not in writes its register too, or what goes there by another copy.
  static bool meets_loop(const llvm::MachineInstr& copy, const llvm::MachineRegisterInfo& registers,
                         const llvm::MachineLoopInfo& loops) {
    const auto is_of_loop = [&](const llvm::MachineInstr& def) {
      const llvm::MachineLoop* loop = loops.getLoopFor(def.getParent());
      return loop && !loop->contains(copy.getParent());
    };
    return llvm::any_of(registers.def_instructions(copy.getOperand(0).getReg()), [&](const llvm::MachineInstr& other) {
      return is_of_loop(other) || (&other != &copy && is_copy(other) &&
                                   llvm::any_of(registers.def_instructions(other.getOperand(1).getReg()), is_of_loop));
    });
  }
  // Whether the instruction may be part of an address.
  static bool adds_up(const llvm::MachineInstr& i) {
    const llvm::StringRef name = i.getMF()->getSubtarget().getInstrInfo()->getName(i.getOpcode());
    return llvm::any_of(std::initializer_list<llvm::StringRef>{"ADD", "SUB", "SHL", "MUL", "MAD", "IMAD"},
                        [&](llvm::StringRef prefix) { return name.starts_with(prefix); });
  }
  // Whether a sum takes what is copied too, or what that is a copy of: the coalescer makes one of them all.
  static bool is_summand(const llvm::MachineInstr& copy, const llvm::MachineRegisterInfo& registers) {
    for (const llvm::MachineInstr* by = &copy; by && is_copy(*by);) {
      const llvm::Register from = by->getOperand(1).getReg();
      if (llvm::any_of(registers.use_nodbg_instructions(from), adds_up)) return true;
      by = registers.getUniqueVRegDef(from);
    }
    return false;
  }
  static bool move(llvm::MachineInstr& copy, llvm::MachineFunction& function, const llvm::MachineLoopInfo& loops) {
    const llvm::MachineRegisterInfo& registers = function.getRegInfo();
    const llvm::Register to = copy.getOperand(0).getReg(), from = copy.getOperand(1).getReg();
    if (!is_summand(copy, registers) || !meets_loop(copy, registers, loops)) return false;
    function.getSubtarget().getInstrInfo()->copyPhysReg(*copy.getParent(), copy.getIterator(), copy.getDebugLoc(), to,
                                                        from, false);
    copy.eraseFromParent();
    return true;
  }
};
char OwnRegisters::ID = 0;

}  // namespace

llvm::FunctionPass* own_registers() { return new OwnRegisters; }

}  // namespace tegula
