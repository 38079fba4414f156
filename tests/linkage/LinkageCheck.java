import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.FieldVisitor;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.Type;

/**
 * Whether a JAR links with the class path: {@code java -cp "<pyspark>/jars/*:<jar>" LinkageCheck.java <jar>}.
 *
 * Promise: every class, field and method that the JAR's code names is there, of the same descriptor and kind, and no class that can be made
 * leaves a method of its interfaces out. Prints each that is missing, and ends with 1 if any is. Reads class files, loads none.
 *
 * One kind of missing method is right: for each method with a body in a trait or an interface, the Scala compiler adds one of the same name to
 * a class, which calls it. A Spark whose interface has no such method never calls the added one.
 */
public class LinkageCheck {
  /** A class file: its supertypes, and its members as name and descriptor with their access flags. */
  record Shape(String name, int access, Set<String> parents, Map<String, Integer> methods, Map<String, Integer> fields) {
    boolean isAbstract() { return (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_INTERFACE)) != 0; }
    boolean isInterface() { return (access & Opcodes.ACC_INTERFACE) != 0; }
  }

  static final Map<String, Shape> known = new HashMap<>();
  static final Set<String> problems = new TreeSet<>();

  static Shape shape(String name) {
    if (!known.containsKey(name)) {
      try (InputStream stream = ClassLoader.getSystemResourceAsStream(name + ".class")) {
        known.put(name, stream == null ? null : read(stream));
      } catch (IOException error) {
        known.put(name, null);
      }
    }
    return known.get(name);
  }

  static Shape read(InputStream stream) throws IOException {
    ClassReader reader = new ClassReader(stream);
    Set<String> parents = new LinkedHashSet<>();
    if (reader.getSuperName() != null) parents.add(reader.getSuperName());
    Collections.addAll(parents, reader.getInterfaces());
    Shape shape = new Shape(reader.getClassName(), reader.getAccess(), parents, new HashMap<>(), new HashMap<>());
    reader.accept(new ClassVisitor(Opcodes.ASM9) {
      @Override public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] errors) {
        shape.methods.put(name + descriptor, access);
        return null;
      }
      @Override public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
        shape.fields.put(name + " " + descriptor, access);
        return null;
      }
    }, ClassReader.SKIP_CODE);
    return shape;
  }

  /** A class and all it inherits from, classes before interfaces. */
  static Set<Shape> lineage(String name) {
    Set<Shape> found = new LinkedHashSet<>();
    for (Shape each = shape(name); each != null; each = each.parents.stream().findFirst().map(LinkageCheck::shape).orElse(null)) {
      if (!found.add(each)) break;
    }
    for (Shape each : Set.copyOf(found)) for (String parent : each.parents) if (shape(parent) != null) found.addAll(lineage(parent));
    return found;
  }

  static boolean needClass(String where, Type type) {
    Type element = type.getSort() == Type.ARRAY ? type.getElementType() : type;
    boolean there = element.getSort() != Type.OBJECT || shape(element.getInternalName()) != null;
    if (!there) problems.add(where + " needs class " + element.getClassName());
    return there;
  }

  static void needMethod(String where, String owner, String method, boolean isStatic) {
    if (owner.startsWith("[") || !needClass(where, Type.getObjectType(owner))) return;
    // Signature polymorphic: any descriptor will do.
    if (owner.startsWith("java/lang/invoke/")) return;
    if (method.startsWith("<init>")) {
      if (!shape(owner).methods.containsKey(method)) problems.add(where + " needs " + owner + "." + method);
      return;
    }
    for (Shape each : lineage(owner)) {
      Integer access = each.methods.get(method);
      if (access != null && ((access & Opcodes.ACC_STATIC) != 0) == isStatic) return;
    }
    problems.add(where + " needs " + owner + "." + method);
  }

  static void needField(String where, String owner, String field) {
    if (!needClass(where, Type.getObjectType(owner))) return;
    if (lineage(owner).stream().noneMatch(each -> each.fields.containsKey(field))) problems.add(where + " needs " + owner + "." + field);
  }

  static void needImplementations(Shape shape) {
    if (shape.isAbstract()) return;
    Set<Shape> lineage = lineage(shape.name);
    for (Shape each : lineage) each.methods.forEach((method, access) -> {
      boolean there = (access & Opcodes.ACC_ABSTRACT) == 0 || lineage.stream()
          .anyMatch(other -> (other.methods.getOrDefault(method, Opcodes.ACC_ABSTRACT) & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_STATIC)) == 0);
      if (!there) problems.add(shape.name + " does not implement " + each.name + "." + method);
    });
  }

  /** Whether a method is one that the compiler added for the method it calls: of the same name, of an interface of the class. */
  static boolean isForwarder(String name, String method, String owner, String called) {
    Shape found = shape(owner);
    return found != null && found.isInterface() && lineage(name).contains(found) && (called.equals(method) || called.equals(method + "$"));
  }

  static void check(ClassReader reader) {
    String name = reader.getClassName();
    shape(name).parents.forEach(parent -> needClass(name, Type.getObjectType(parent)));
    needImplementations(shape(name));
    reader.accept(new ClassVisitor(Opcodes.ASM9) {
      @Override public MethodVisitor visitMethod(int access, String method, String descriptor, String signature, String[] errors) {
        String where = name + "." + method;
        for (Type type : Type.getArgumentTypes(descriptor)) needClass(where, type);
        needClass(where, Type.getReturnType(descriptor));
        return new MethodVisitor(Opcodes.ASM9) {
          @Override public void visitMethodInsn(int opcode, String owner, String called, String type, boolean isInterface) {
            if (!isForwarder(name, method, owner, called)) needMethod(where, owner, called + type, opcode == Opcodes.INVOKESTATIC);
            Shape found = shape(owner);
            if (found != null && found.isInterface() != isInterface) problems.add(where + " takes " + owner + " for a class, or an interface");
          }
          @Override public void visitFieldInsn(int opcode, String owner, String field, String type) {
            needField(where, owner, field + " " + type);
          }
          @Override public void visitTypeInsn(int opcode, String type) {
            needClass(where, Type.getObjectType(type));
          }
          @Override public void visitLdcInsn(Object value) {
            if (value instanceof Type type && type.getSort() != Type.METHOD) needClass(where, type);
          }
          @Override public void visitInvokeDynamicInsn(String called, String type, Handle bootstrap, Object... arguments) {
            for (Object argument : arguments) {
              if (argument instanceof Handle handle && handle.getTag() >= Opcodes.H_INVOKEVIRTUAL) {
                needMethod(where, handle.getOwner(), handle.getName() + handle.getDesc(), handle.getTag() == Opcodes.H_INVOKESTATIC);
              }
            }
          }
        };
      }
    }, ClassReader.SKIP_DEBUG);
  }

  public static void main(String[] arguments) throws IOException {
    int classes = 0;
    try (ZipFile jar = new ZipFile(Path.of(arguments[0]).toFile())) {
      for (ZipEntry entry : Collections.list(jar.entries())) {
        if (entry.getName().endsWith(".class")) {
          check(new ClassReader(jar.getInputStream(entry)));
          classes++;
        }
      }
    }
    problems.forEach(System.out::println);
    System.out.println(classes + " classes, " + problems.size() + " problems");
    System.exit(classes > 0 && problems.isEmpty() ? 0 : 1);
  }
}
