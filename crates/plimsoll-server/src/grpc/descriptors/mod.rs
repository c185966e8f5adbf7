//! The protobuf file descriptors that reflection serves. They contain the fields that this server reads or writes, with the file
//! names and message names of the specifications.

mod common;
mod envoy;
mod types;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MessageOptions, MethodDescriptorProto,
    OneofDescriptorProto, ServiceDescriptorProto,
};

use types::{Field, FieldType, File, Message, Method};

/// The descriptors of all files.
pub(super) fn all() -> FileDescriptorSet {
    let files = common::FILES.iter().chain(envoy::FILES);
    FileDescriptorSet {
        file: files.map(file).collect(),
    }
}

fn file(from: &File) -> FileDescriptorProto {
    let mut file = FileDescriptorProto {
        name: Some(from.name.to_owned()),
        package: Some(from.package.to_owned()),
        syntax: Some("proto3".to_owned()),
        dependency: from.imports.iter().map(ToString::to_string).collect(),
        ..FileDescriptorProto::default()
    };
    for Message(path, fields, alternatives) in from.messages {
        let message = message(path, fields, *alternatives);
        within(&mut file, path).push(message);
    }
    for (path, words) in from.enums {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let values = words.iter().zip(0..);
        let value = |(word, number): (&&str, i32)| EnumValueDescriptorProto {
            name: Some((*word).to_owned()),
            number: Some(number),
            options: None,
        };
        let is = EnumDescriptorProto {
            name: Some(name.to_owned()),
            value: values.map(value).collect(),
            ..EnumDescriptorProto::default()
        };
        match above {
            "" => file.enum_type.push(is),
            above => {
                let name = above.rsplit('/').next();
                let beside = within(&mut file, above);
                let message = beside.iter_mut().find(|it| it.name.as_deref() == name);
                if let Some(message) = message {
                    message.enum_type.push(is);
                }
            }
        }
    }
    file.service.extend(
        from.service
            .iter()
            .map(|(name, methods)| service(name, methods)),
    );
    file
}

/// The list of messages to which the message with this path belongs.
fn within<'f>(file: &'f mut FileDescriptorProto, path: &str) -> &'f mut Vec<DescriptorProto> {
    let mut messages = &mut file.message_type;
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    for name in above.split('/').filter(|name| !name.is_empty()) {
        let at = messages
            .iter()
            .position(|it| it.name.as_deref() == Some(name));
        messages = &mut messages[at.unwrap_or_default()].nested_type;
    }
    messages
}

fn message(
    path: &str,
    fields: &[Field],
    alternatives: Option<(&'static str, usize)>,
) -> DescriptorProto {
    let name = path.rsplit('/').next().unwrap_or(path);
    let fields = fields.iter().enumerate().map(|(at, from)| {
        let is_one = alternatives.is_some_and(|(_, first)| at >= first);
        FieldDescriptorProto {
            oneof_index: is_one.then_some(0),
            ..field(from)
        }
    });
    DescriptorProto {
        name: Some(name.to_owned()),
        field: fields.collect(),
        oneof_decl: alternatives
            .map(|(name, _)| OneofDescriptorProto {
                name: Some(name.to_owned()),
                options: None,
            })
            .into_iter()
            .collect(),
        options: (name.ends_with("Entry") && name != "Entry").then(|| MessageOptions {
            map_entry: Some(true),
            ..MessageOptions::default()
        }),
        ..DescriptorProto::default()
    }
}

fn field(&(name, number, of): &Field) -> FieldDescriptorProto {
    let (kind, type_name) = match of {
        FieldType::Text => (Type::String, None),
        FieldType::Bytes => (Type::Bytes, None),
        FieldType::Bool => (Type::Bool, None),
        FieldType::Double => (Type::Double, None),
        FieldType::I32 => (Type::Int32, None),
        FieldType::I64 => (Type::Int64, None),
        FieldType::U32 => (Type::Uint32, None),
        FieldType::U64 => (Type::Uint64, None),
        FieldType::Enum(name) => (Type::Enum, Some(name)),
        FieldType::Message(name) | FieldType::Many(name) => (Type::Message, Some(name)),
    };
    let label = match of {
        FieldType::Many(_) => Label::Repeated,
        _ => Label::Optional,
    };
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind.into()),
        type_name: type_name.map(str::to_owned),
        ..FieldDescriptorProto::default()
    }
}

fn service(name: &str, methods: &[Method]) -> ServiceDescriptorProto {
    let method = |(name, from, to, (many_in, many_out)): &Method| MethodDescriptorProto {
        name: Some((*name).to_owned()),
        input_type: Some((*from).to_owned()),
        output_type: Some((*to).to_owned()),
        options: None,
        client_streaming: Some(*many_in),
        server_streaming: Some(*many_out),
    };
    ServiceDescriptorProto {
        name: Some(name.to_owned()),
        method: methods.iter().map(method).collect(),
        options: None,
    }
}
